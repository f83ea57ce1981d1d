"""Test linked pages in a folder, titles of pages, and estimated durations."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from iallocator import __version__
from iallocator.cli import main
from tests.builders import allocate, as_bytes, cluster, instance

from .conftest import Show, Write

HELD = {f"d{k}": instance("node1", "node2", memory=256) for k in range(6)}

PAGES = {"index.html", "cluster.html", "plan.html", "failures.html", "rules.html"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write the pages of a plan into a new folder, and return its path."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    tagged = {f"d{k}": instance("node1", "node2", memory=256) for k in range(6)}
    for name in ("d0", "d1"):
        tagged[name]["tags"] = ["iallocator:separate:should:x"]
    document = cluster(4, instances=tagged)
    source = tmp_path / "document.json"
    source.write_bytes(as_bytes(document))
    assert main(["balance", f"--html={tmp_path}/site/", str(source)]) == 0
    return tmp_path / "site"


def test_folder_gets_linked_pages_with_an_index(site: Path) -> None:
    """--html with a folder writes linked pages, with each section on one page."""
    assert {path.name for path in site.iterdir()} == PAGES
    texts = {path.name: path.read_text() for path in site.iterdir()}
    ids = {name: set(re.findall(r' id="([^"]*)"', text)) for name, text in texts.items()}
    for name, text in texts.items():
        linked = set()
        for target in re.findall(r'<a [^>]*href="([^"]*)"', text):
            page, _, anchor = target.partition("#")
            linked.add(page)
            assert not anchor or anchor in ids[page or name], (name, target)
        assert linked >= PAGES
    sections = {name: re.findall(r'<section id="(\w+)"', text) for name, text in texts.items()}
    assert sections["cluster.html"][0] == "topology"
    assert sections["plan.html"] == ["moves", "transition"]
    assert sections["failures.html"] == ["problems", "failures"]
    assert sections["rules.html"] == ["rules"]
    assert sections["index.html"] == []


def test_page_of_an_earlier_run_is_removed_if_the_new_run_has_none(site: Path) -> None:
    """--html with a folder removes pages of an earlier run, but no files of others."""
    source = site.parent / "document.json"
    assert main(["check", f"--html={site}/", "--no-simulation", str(source)]) in (0, 1)
    assert not (site / "plan.html").exists()
    assert (site / "failures.html").exists()
    (site / "plan.html").write_text("foreign")
    assert main(["check", f"--html={site}/", "--no-simulation", str(source)]) in (0, 1)
    assert (site / "plan.html").read_text() == "foreign"


def test_folder_that_exists_is_written_again(site: Path) -> None:
    """--html with an existing folder replaces its pages, and keeps other files."""
    (site / "other.txt").write_text("other")
    (site / "plan.html").write_text("old")
    assert main(["balance", f"--html={site}", str(site.parent / "document.json")]) == 0
    assert "old" not in (site / "plan.html").read_text()[:5]
    assert {path.name for path in site.iterdir()} == {*PAGES, "other.txt"}


def test_folder_is_rejected_by_a_command_with_one_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command with a single page rejects a folder after `--html`, and creates no folder."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    source = tmp_path / "document.json"
    source.write_bytes(as_bytes(allocate(cluster(2))))
    assert main(["explain", f"--html={tmp_path}/site/", str(source)]) == 2
    assert capsys.readouterr().err == (
        "iallocator: --html: expected a file: explain has one page\n"
    )
    assert not (tmp_path / "site").exists()


def test_browser_shows_the_links_on_a_phone(site: Path, show: Show) -> None:
    """On a phone, the links between pages are in one line, and none is cut off."""
    page = show(site / "failures.html", others=True)
    page.set_viewport_size({"width": 390, "height": 800})
    boxes = [link.bounding_box() for link in page.locator("nav a.page").all()]
    assert len(boxes) == 5
    assert len({box["y"] for box in boxes}) == 1
    nav = page.locator("nav").bounding_box()
    assert all(box["y"] + box["height"] <= nav["y"] + nav["height"] for box in boxes)


def test_browser_follows_links_between_pages(site: Path, show: Show) -> None:
    """A click on a node on the page of failures opens its details on another page."""
    page = show(site / "failures.html", others=True)
    page.locator("#failures td a").first.click()
    page.locator("#detail h3").wait_for()
    assert page.url.partition("#")[0].endswith("/cluster.html")
    page.get_by_role("link", name="Rules", exact=True).click()
    assert "d0" in page.locator("#rules").inner_text()


def test_page_is_titled_by_what_it_shows(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The title of a page has cluster and date; the head has source, version, arguments."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    text = unescape(write("balance", cluster(4, instances=HELD), "--max-length=2").read_text())
    title = re.search("<title>(.*?)</title>", text)
    assert title
    assert title[1] == "balance · cluster.example.com · 2023-11-14T22:13:20Z"
    identity = re.search('<p class="identity">(.*?)</p>', text)
    assert identity
    source = f"{tmp_path}/document.json"
    for words in (
        "cluster.example.com", source, "2023-11-14 22:13:20 UTC", f"iallocator {__version__}",
        f"iallocator balance --max-length=2 --html={tmp_path}/page.html {source}",
    ):  # fmt: skip
        assert words in identity[1]


@pytest.mark.parametrize(
    ("bandwidth", "minutes"), [("100", "2 min"), ("10", "17 min"), ("0.1g", "2 min")]
)
def test_duration_of_a_transition_follows_from_the_bandwidth(
    write: Write, bandwidth: str, minutes: str
) -> None:
    """The stated duration is the copied data by --bandwidth, and a fixed time per step."""
    held = {"a": instance("node1", "node2", memory=512, disk_space_total=10240)}
    document = cluster(3, instances=held, changes={"node2": {"drained": True}})
    text = write("balance", document, f"--bandwidth={bandwidth}", "--max-length=1").read_text()
    speed = {"0.1g": "102.4"}.get(bandwidth, bandwidth)
    assert f"Estimated duration: {minutes}, at {speed} MiB/s" in text
    step = text[text.index('id="step-1"') :]
    assert "replace-disks" in step[: step.index("</tr>")]


def test_bandwidth_without_a_page_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--bandwidth is rejected without --html."""
    source = tmp_path / "document.json"
    source.write_bytes(as_bytes(cluster(2)))
    assert main(["balance", "--bandwidth=5", str(source)]) == 2
    assert "--bandwidth" in capsys.readouterr().err


def test_matrix_of_failures_has_the_amount_that_each_node_takes_over(write: Write) -> None:
    """The matrix of failures has the memory that each node takes over from a failed one."""
    held = {
        "a": instance("node1", "node2", memory=1024),
        "b": instance("node1", "node3", memory=2048),
    }
    text = write("report", cluster(3, instances=held)).read_text()
    part = text[text.index("Which node takes over how much") :]
    part = part[: part.index("</table>")]
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', part) == [
        "If this node fails", "node2", "node3"
    ]  # fmt: skip
    assert re.findall(r">([\d.]+ GiB)<small>(.*?)</small>", part) == [
        ("1.0 GiB", "1 instance"), ("2.0 GiB", "1 instance"),
    ]  # fmt: skip


def test_nodes_are_sorted_by_load_with_percentages(write: Write) -> None:
    """Nodes are sorted by load, the largest used share; a histogram counts them in tenths."""
    held = {"a": instance("node2", memory=6000), "b": instance("node3", memory=3000)}
    text = write("report", cluster(3, memory=10000, instances=held)).read_text()
    rows = re.findall(r'<tr id="node-(\d)".*?</tr>', text)
    assert rows == ["1", "2", "0"]
    first = text[text.index('<tr id="node-1"') :]
    assert ">60 %<" in first[: first.index("</tr>")]
    assert 'aria-label="Memory: 1 node 0–10 %, 1 node 30–40 %, 1 node 60–70 %"' in text


def test_explanation_begins_with_the_table_of_nodes(write: Write) -> None:
    """The page of an explanation has the table of nodes before comparisons of statistics."""
    text = write("explain", allocate(cluster(3))).read_text()
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    assert titles[0].startswith("Nodes of group")


def test_headline_counts_one_thing_in_the_singular(write: Write) -> None:
    """The text of a page has the singular for a count of one."""
    held = {"a": instance("node1", "node2", memory=512)}
    document = cluster(3, instances=held, changes={"node2": {"offline": True}})
    text = write("check", document).read_text()
    assert not re.search(r"\b1 (?:instances|nodes|moves|steps|waves|more kinds)\b", text)
    data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text)
    assert data
    assert json.loads(data[1])["states"]
