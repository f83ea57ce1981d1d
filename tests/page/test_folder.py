"""Test linked pages in a folder, the identity of pages, and estimated durations."""

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
    """Write the pages of a plan into a folder that does not exist before; return its path."""
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
    """Each link leads to an element of a page of the folder; every section is on one page."""
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
    """Pages of the program go; a foreign file with the name of a page stays."""
    source = site.parent / "document.json"
    assert main(["check", f"--html={site}/", "--no-simulation", str(source)]) in (0, 1)
    assert not (site / "plan.html").exists()
    assert (site / "failures.html").exists()
    (site / "plan.html").write_text("foreign")
    assert main(["check", f"--html={site}/", "--no-simulation", str(source)]) in (0, 1)
    assert (site / "plan.html").read_text() == "foreign"


def test_folder_that_exists_is_written_again(site: Path) -> None:
    """A timer replaces the pages; other files of the folder stay."""
    (site / "other.txt").write_text("other")
    (site / "plan.html").write_text("old")
    assert main(["balance", f"--html={site}", str(site.parent / "document.json")]) == 0
    assert "old" not in (site / "plan.html").read_text()[:5]
    assert {path.name for path in site.iterdir()} == {*PAGES, "other.txt"}


def test_folder_is_rejected_by_a_command_with_one_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An explanation is one page, and no folder is created."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    source = tmp_path / "document.json"
    source.write_bytes(as_bytes(allocate(cluster(2))))
    assert main(["explain", f"--html={tmp_path}/site/", str(source)]) == 2
    assert capsys.readouterr().err == (
        "iallocator: --html: expected a file: explain has one page\n"
    )
    assert not (tmp_path / "site").exists()


def test_browser_shows_the_links_on_a_phone(site: Path, show: Show) -> None:
    """They are in one line, and none is cut off."""
    page = show(site / "failures.html", others=True)
    page.set_viewport_size({"width": 390, "height": 800})
    boxes = [link.bounding_box() for link in page.locator("nav a.page").all()]
    assert len(boxes) == 5
    assert len({box["y"] for box in boxes}) == 1
    nav = page.locator("nav").bounding_box()
    assert all(box["y"] + box["height"] <= nav["y"] + nav["height"] for box in boxes)


def test_browser_follows_links_between_pages(site: Path, show: Show) -> None:
    """The name of a node on the page of failures opens its details on the page of the cluster."""
    page = show(site / "failures.html", others=True)
    page.locator("#failures td a").first.click()
    page.locator("#detail h3").wait_for()
    assert page.url.partition("#")[0].endswith("/cluster.html")
    page.get_by_role("link", name="Rules", exact=True).click()
    assert "d0" in page.locator("#rules").inner_text()


def test_page_is_titled_by_what_it_shows(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Title and head have the cluster and the date; the head has source, version, command line."""
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
    """10 GiB of disk take 10240 / bandwidth seconds, and each step a fixed time more."""
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
    """It would have no effect."""
    source = tmp_path / "document.json"
    source.write_bytes(as_bytes(cluster(2)))
    assert main(["balance", "--bandwidth=5", str(source)]) == 2
    assert "--bandwidth" in capsys.readouterr().err


def test_matrix_of_failures_has_the_amount_that_each_node_takes_over(write: Write) -> None:
    """The row of node1 has the memory of its instances in the column of their secondary."""
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
    """The load is the largest used share; the histogram counts nodes in tenths."""
    held = {"a": instance("node2", memory=6000), "b": instance("node3", memory=3000)}
    text = write("report", cluster(3, memory=10000, instances=held)).read_text()
    rows = re.findall(r'<tr id="node-(\d)".*?</tr>', text)
    assert rows == ["1", "2", "0"]
    first = text[text.index('<tr id="node-1"') :]
    assert ">60 %<" in first[: first.index("</tr>")]
    assert 'aria-label="Memory: 1 node 0–10 %, 1 node 30–40 %, 1 node 60–70 %"' in text


def test_explanation_begins_with_the_table_of_nodes(write: Write) -> None:
    """The comparisons of statistics follow it."""
    text = write("explain", allocate(cluster(3))).read_text()
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    assert titles[0].startswith("Nodes of group")


def test_headline_counts_one_thing_in_the_singular(write: Write) -> None:
    """No page has "1 instances" or "1 more kinds"."""
    held = {"a": instance("node1", "node2", memory=512)}
    document = cluster(3, instances=held, changes={"node2": {"offline": True}})
    text = write("check", document).read_text()
    assert not re.search(r"\b1 (?:instances|nodes|moves|steps|waves|more kinds)\b", text)
    data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text)
    assert data
    assert json.loads(data[1])["states"]
