"""Test the page of a plan: its content, and its display in a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests.builders import allocate, allocate_rbd, as_bytes, cluster, instance, rbd

from .conftest import Show, Write

EVIL = "<img src=x onerror=alert(1)>"

HELD = {
    **{f"d{k}": instance("node1", "node2", memory=256) for k in range(4)},
    EVIL: instance("node1", "node2", memory=512),
    "\"'&</script><script>alert(2)</script>": rbd("node1", memory=256),
}
"""Instances nearly all on one node, with names that look like markup."""


def unbalanced(nodes: int = 4, **members: Any) -> Any:
    """Return a cluster of `nodes` nodes with all instances on the first one."""
    return cluster(nodes, instances=HELD, **members)


class Outline(HTMLParser):
    """A parser that collects the elements of a page, and asserts that they are closed in order."""

    VOID = ("meta", "input", "link", "br", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Assert that the element closes the last open one."""
        if tag not in self.VOID:
            assert self.open.pop() == tag


def kinds_of_scripts(outline: Outline) -> list[str | None]:
    """Return the types of all scripts: one that runs, and one that is only data."""
    found = [attributes.get("type") for tag, attributes in outline.elements if tag == "script"]
    return sorted(found, key=str)


def test_page_of_a_plan_is_one_file_that_needs_nothing_else(write: Write) -> None:
    """The page of a plan is one well-formed file that loads nothing, with names as text."""
    text = write("balance", unbalanced()).read_text()
    found = Outline(text)
    tags = [tag for tag, _ in found.elements]
    assert kinds_of_scripts(found) == [None, "application/json"]
    assert not {"img", "link", "iframe", "object"}.intersection(tags)
    assert not [
        a for _, attributes in found.elements for a in attributes if a in ("src", "onerror")
    ]
    ids = [attributes["id"] for _, attributes in found.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    targets = {a["href"] for tag, a in found.elements if tag == "a"}
    assert targets <= {f"#{name}" for name in ids}
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") > 1


def test_page_of_a_plan_shows_every_move_with_a_reason(write: Write) -> None:
    """The page of a plan gives a reason for every move."""
    text = write("balance", unbalanced()).read_text()
    rows = re.findall(r'<tr id="move-\d+">(.*?)</tr>', text, re.DOTALL)
    assert rows
    for row in rows:
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        assert re.search(r"[a-z]{4}", cells[4])


def test_page_of_a_plan_for_several_groups_names_the_sum_of_their_scores(write: Write) -> None:
    """The page of a plan for several groups calls the sum of their scores a sum."""
    held = {f"i{k}": instance("node1", "node2", memory=512) for k in range(4)}
    document = cluster({"default": 3, "away": 2}, instances=held)
    text = write("balance", document, "--all-groups").read_text()
    assert "the sum of the groups' scores falls from" in text.replace("&#39;", "'")
    text = write("balance", document).read_text()
    assert ": the score falls from" in text
    document["nodes"]["node1"]["offline"] = True
    text = write("redistribute", document).read_text()
    assert re.search(r"<dt>Objective</dt>\s*<dd>\d+ \S+ \d+</dd>", text)
    assert "score falls" not in text


def test_page_of_squeeze_names_the_node_that_is_freed(write: Write) -> None:
    """The page of squeeze gives the freed node as the reason of moves."""
    held = {"a": rbd("node3", memory=256)}
    document = cluster(3, instances=held, tags=())
    for name in ("node1", "node2"):
        document["nodes"][name]["tags"] = ["htools:standby:auto"]
    document["nodes"]["node3"]["tags"] = ["htools:standby:auto"]
    text = write("squeeze", document, "--master-node=node1").read_text()
    assert "to be powered down" in text


def test_page_without_the_template_library_is_rejected_at_once(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the template library, --html is rejected at once in one line."""
    monkeypatch.setattr("iallocator.render.page.view.find_spec", lambda name: None)
    source = tmp_path / "document.json"
    source.write_bytes(as_bytes(unbalanced()))
    assert main(["balance", f"--html={tmp_path / 'page'}", str(source)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "iallocator: --html needs the module jinja2: pip install 'iallocator[html]'\n"
    assert not (tmp_path / "page").exists()


def test_browser_shows_names_as_text_and_runs_no_other_script(write: Write, show: Show) -> None:
    """A name that looks like markup is shown as text in a browser."""
    page = show(write("balance", unbalanced()))
    assert page.locator("img").count() == 0
    assert page.locator("#moves").get_by_text(EVIL).count() > 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slow
def test_browser_finds_a_node_among_a_thousand(write: Write, show: Show) -> None:
    """The search field of a page hides rows without all the given words."""
    path = write("balance", unbalanced(1000, memory=16384))
    assert path.stat().st_size < 5_000_000
    page = show(path)
    rows = page.locator("table.nodes tbody tr")
    page.fill("#find", "node777")
    page.locator("table.nodes tr.gone").nth(998).wait_for(state="attached")
    assert rows.filter(has_text="node777").is_visible()
    page.fill("#find", "")
    page.locator("tr.gone").first.wait_for(state="detached")


def test_browser_without_scripts_switches_between_before_and_after(
    write: Write, show: Show
) -> None:
    """Without scripts, radio buttons switch between before and after."""
    page = show(write("balance", unbalanced()), java_script_enabled=False)
    before, after = (page.locator(f"table.nodes tbody tr .meter.m{k}").first for k in (0, 1))
    assert before.is_visible()
    assert after.is_visible()
    page.locator("label[for=state-1]").click()
    assert not before.is_visible()
    assert after.is_visible()
    assert not page.locator("#find").is_visible()


def test_browser_is_used_by_keyboard_alone(write: Write, show: Show) -> None:
    """A page can be used by keyboard alone."""
    page = show(write("balance", unbalanced()))
    focus = "document.activeElement.id || document.activeElement.textContent.trim()"
    reached: list[str] = []
    while "state-all" not in reached:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(focus))
        assert len(reached) < 30
    assert reached[0].startswith("Skip to")
    label = page.locator("label[for=state-all]")
    assert label.evaluate("e => getComputedStyle(e).outlineStyle") != "none"
    page.keyboard.press("ArrowRight")
    assert page.locator("#state-0").is_checked()
    assert not page.locator("table.nodes tbody tr .meter.m1").first.is_visible()
    head = page.locator("table.nodes th", has_text="Node").first
    head.locator("button").focus()
    for key, order in (("Enter", "ascending"), ("Space", "descending")):
        page.keyboard.press(key)
        assert head.get_attribute("aria-sort") == order


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_shows_text_with_enough_contrast(write: Write, show: Show, scheme: str) -> None:
    """On a page, every text has a contrast of at least 4.5 to 1."""
    page = show(write("balance", unbalanced()), color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []


CONTRAST = """() => {
  const lum = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
    return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const wrong = [];
  for (const e of document.querySelectorAll("body *:not(svg *):not(script)")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (e.closest("svg") || !e.checkVisibility()) continue;
    let a = parse(getComputedStyle(e).color).slice(0, 3); const b = behind(e);
    let o = 1; for (let p = e; p; p = p.parentElement) o *= Number(getComputedStyle(p).opacity);
    a = a.map((v, k) => v * o + b[k] * (1 - o));
    const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p);
    const ratio = (x + .05) / (y + .05);
    if (ratio < 4.5) wrong.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)}`);
  }
  return [...new Set(wrong)];
}"""


def test_page_of_an_explanation_shows_scores_with_four_decimals(write: Write) -> None:
    """The page of an explanation shows scores with four decimals."""
    text = write("explain", allocate(cluster(4))).read_text()
    part = text[text.index("Nodes of group") :].partition("</table>")[0]
    assert re.search(r"score \d+\.\d{4}\b", part)
    assert not re.search(r"score \d+\.\d{5}", part)


ASKED = {"report": (), "check": (), "capacity": ("-l3", "--disk-template=rbd"), "explain": ()}


@pytest.mark.parametrize("command", sorted(ASKED))
def test_page_of_a_command_is_well_formed_and_runs_in_a_browser(
    write: Write, show: Show, command: str
) -> None:
    """The page of each command is well-formed, and its links lead to sections."""
    document = allocate(unbalanced(), disk_template="drbd", required_nodes=2, name=f"n{EVIL}")
    path = write(command, document, *ASKED[command])
    found = Outline(path.read_text())
    ids = {attributes.get("id") for _, attributes in found.elements}
    links = [a["href"] or "" for tag, a in found.elements if tag == "a"]
    assert all(link[1:] in ids for link in links)
    assert kinds_of_scripts(found) == [None, "application/json"]
    page = show(path)
    assert page.locator("h1").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("table.nodes tbody tr").count() == 4


def test_page_of_capacity_has_tolerated_failures_and_the_end(write: Write) -> None:
    """The page of capacity has problems, failures, score and groups, and the nearest candidate."""
    text = write(
        "capacity", allocate(cluster(3)), "--standard-alloc=30g,1g,1", "--n1=off"
    ).read_text()
    for title in ("If a node fails", "Score", "Groups", "Problems"):
        assert f">{title}" in text, title
    assert "closest candidate: " in text


def test_page_of_capacity_counts_new_instances_by_group(write: Write) -> None:
    """The page of capacity counts new instances by group."""
    one = {"a": rbd("node1", memory=512)}
    text = write(
        "capacity", cluster(2, memory=8192, instances=one), "--n1=off", "--disk-template=rbd",
        "--standard-alloc=1g,6g,1",
    ).read_text()  # fmt: skip
    groups = text[text.index('id="groups"') :]
    assert "1 \N{RIGHTWARDS ARROW} 3" in groups[: groups.index("</table>")]


def test_page_of_capacity_has_the_forecast(write: Write, tmp_path: Path) -> None:
    """The page of `capacity --replay` has the median of the requests that fit, and each rejection.

    The requests of the folder are repeated in several orders.
    """
    (tmp_path / "past").mkdir()
    asked = allocate_rbd(cluster(2, memory=8000), memory=2500)
    (tmp_path / "past" / "one.json").write_bytes(as_bytes(asked))
    text = write("capacity", cluster(2, memory=8000), "--n1=off", f"--replay={tmp_path}/past")
    page = text.read_text()
    assert "Median 6, from 6 to 6, until the first rejection" in page
    table = page[page.index('id="forecast"') :]
    assert table[: table.index("</table>")].count("FailMem") == 9


def test_scrollable_parts_of_a_page_have_distinct_names(write: Write) -> None:
    """Scrollable parts of a page have distinct names, for screen readers."""
    path = write("capacity", allocate(cluster(3)), "-l3")
    found = Outline(path.read_text())
    labels = [a["aria-label"] for _, a in found.elements if a.get("role") == "region"]
    assert len(set(labels)) == len(labels)
    assert '<th scope="col"></th>' not in path.read_text()
