"""Test the topology of a page: tiles of nodes, blocks of instances, arrows, details."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from iallocator.planners.check.health import FINDING_KINDS
from iallocator.render.page.health import WRONG
from tests.builders import allocate, cluster, instance, rbd

from .conftest import Show, Write

EVIL = "<img src=x onerror=alert(1)>"


def racked(memory: int = 8192, **members: Any) -> Any:
    """Return a cluster of two groups; the nodes of the first one are in two racks."""
    held = {
        "db": instance("node1", "node2", memory=6000),
        EVIL: instance("node1", "node3", memory=1000),
        "web": rbd("node4", memory=512),
    }
    document = cluster(
        {"home": 3, "away": 2}, memory=memory, instances=held, tags=("htools:nlocation:rack",),
        **members,
    )  # fmt: skip
    for name, rack in (("node1", "r1"), ("node2", "r1"), ("node3", "r2")):
        document["nodes"][name]["tags"] = [f"rack:{rack}", "ssd"]
    return document


def short_of_memory() -> Any:
    """Return a cluster in which node2 lacks the memory for the failover of the instance db."""
    document = racked()
    leave = document["nodes"]["node2"]
    leave["reserved_memory"], leave["free_memory"] = 4000, 4192
    return document


def data_of(path: Path) -> Any:
    """Return the data in a page that its script uses."""
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text())
    assert found
    return json.loads(found[1])


def test_topology_is_the_first_section_and_arranges_nodes_by_group_and_rack(write: Write) -> None:
    """The topology is the first section, with a tile for each node by group and rack."""
    text = write("report", racked()).read_text()
    assert re.findall(r'<section id="(\w+)"', text)[0] == "topology"
    part = text[text.index('<div class="map">') : text.index('<svg class="arrows"')]
    assert re.findall(r"<(?:h3|h4|b)>(.*?)<", part) == [
        "away", "node4", "node5", "home", "rack:r1", "node1", "node2", "rack:r2", "node3",
    ]  # fmt: skip


def test_blocks_are_as_wide_as_the_share_of_memory(write: Write) -> None:
    """The width of an instance's block is its share of the node's memory."""
    held = {"half": instance("node1", memory=4000)}
    text = write("report", cluster(2, memory=8000, instances=held)).read_text()
    tile = text[text.index('id="tile-0"') :]
    assert re.search(r'<span class="p"><i style="width:50.0%" data-i=0>half</i></span>', tile)


def test_instance_that_cannot_be_restarted_is_marked_on_both_of_its_nodes(write: Write) -> None:
    """An instance that cannot be restarted is marked on both of its nodes."""
    path = write("report", short_of_memory())
    data = data_of(path)
    names = [one[0] for one in data["instances"]]
    assert [[names[i] for i in some] for some in data["lost"]] == [["db"]]
    marked = re.findall(r'<i class="x" [^>]*data-i=(\d+)>', path.read_text())
    assert [names[int(i)] for i in marked] == ["db", "db"]
    assert data["failures"][0][0]["tolerated"] is False


def test_small_tiles_show_the_ends_of_names(write: Write) -> None:
    """Small tiles show node names without their common beginning."""
    held = {f"application-{k}": instance(f"node{k}", memory=4000) for k in (1, 2)}
    large = write("report", cluster(2, memory=8000, instances=held)).read_text()
    assert re.findall(r"data-i=\d+>([^<]+)</i>", large) == ["\u20261", "\u20262"]
    assert re.findall(r"<b>(node\d)</b>", large) == ["node1", "node2"]
    document = json.loads(json.dumps(cluster(61)).replace('"node', '"virtual-host-'))
    document["nodegroups"] = document.pop("virtual-host-groups")
    document["nodes"] = document.pop("virtual-host-s")
    names = re.findall(r'id="tile-\d+".*?<b>(.*?)</b>', write("report", document).read_text())
    assert sorted(names) == sorted(f"\u2026{k}" for k in range(1, 62))


def test_small_tiles_are_labelled_in_each_group(write: Write) -> None:
    """Small tiles omit the name of the group, which is above the tiles."""
    text = json.dumps(cluster({"home": 32, "away": 32}))
    for k in range(1, 65):
        text = text.replace(f'"node{k}"', f'"host-{"ab"[k > 32]}-{k:02}"')
    document = json.loads(text)
    names = re.findall(r'id="tile-\d+".*?<b>(.*?)</b>', write("report", document).read_text())
    assert sorted(names) == sorted(f"\u2026{k:02}" for k in range(1, 65))


def test_arrows_of_many_moves_are_hidden_at_first(write: Write) -> None:
    """The arrows of more than a hundred moves are hidden until a box is checked."""
    for count, box in ((40, 'id="arrows" checked>'), (160, 'id="arrows">')):
        held = {f"i{k}": rbd("node1", memory=64) for k in range(count)}
        assert (
            box in write("balance", cluster(4, memory=64000, cpus=64, instances=held)).read_text()
        )


def test_problems_are_about_one_node_or_instance_without_the_domain(write: Write) -> None:
    """Each row of problems is about one node or instance, and links to the tile."""
    text = json.dumps(short_of_memory())
    for name in ("node1", "node2", "node3", "node4", "node5", "db", "web"):
        text = text.replace(f'"{name}"', f'"{name}.example.com"')
    text = text.replace(json.dumps(EVIL), '"evil.example.com"')
    page = write("report", json.loads(text)).read_text()
    part = page[page.index('<section id="problems"') :].partition("</section>")[0]
    assert "its failure is not tolerated" in part
    assert ".example.com" not in part
    assert re.search(r'href="#tile-\d"[^>]*>node1</a>', part)
    assert WRONG.keys() == FINDING_KINDS.keys()


def test_moves_of_a_plan_are_the_data_of_the_arrows(write: Write) -> None:
    """The data of arrows has both ends of each moved instance."""
    held = {f"i{k}": instance("node1", "node2", memory=512) for k in range(4)}
    data = data_of(write("balance", cluster(4, instances=held)))
    assert data["states"] == ["Before", "After"]
    assert data["moves"]
    for _, before, after in data["moves"]:
        assert before == [0, 1]
        assert before != after


def test_new_instance_has_a_block_after_the_answer(write: Write) -> None:
    """The page of `explain` shows the requested instance on its node."""
    path = write("explain", allocate(racked(), memory=777, name="fresh"))
    assert "fresh" in [one[0] for one in data_of(path)["instances"]]
    assert path.read_text().count(">fresh</i>") <= 2


def test_browser_shows_a_node_when_its_tile_is_clicked(write: Write, show: Show) -> None:
    """A click on a tile shows instances, tags, failover targets and the effect of a failure."""
    page = show(write("report", short_of_memory()))
    page.click("#tile-0")
    panel = page.locator("#detail")
    text = panel.inner_text()
    for words in ("node1", "ssd", "db", "node2", "node3", EVIL):
        assert words in text, words
    assert "The failure is not tolerated." in text
    assert "cannot be restarted" in text
    assert page.locator("img").count() == 0
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert page.evaluate("document.activeElement.id") == "tile-0"


def test_browser_draws_arrows_and_switches_before_and_after(write: Write, show: Show) -> None:
    """The browser draws an arrow for each pair of nodes, and switches before and after."""
    held = {f"i{k}": instance("node1", "node2", memory=512) for k in range(4)}
    page = show(write("balance", cluster(4, instances=held)))
    assert page.locator(".arrows g path").count() > 0
    first = page.locator("#tile-0 .rows")
    assert [first.nth(k).is_visible() for k in (0, 1)] == [True, False]
    page.click("label[for=view-1]")
    assert [first.nth(k).is_visible() for k in (0, 1)] == [False, True]
    page.click("label[for=arrows]")
    assert not page.locator(".arrows").is_visible()


def test_browser_moves_between_tiles_by_arrow_keys(write: Write, show: Show) -> None:
    """Tab reaches one tile, arrow keys the others, and Enter opens the details."""
    page = show(write("report", racked()))
    assert page.locator(".node[tabindex='0']").count() == 1
    page.locator(".node").first.focus()
    page.keyboard.press("ArrowRight")
    here = page.evaluate("document.activeElement.id")
    assert here == page.locator(".node").nth(1).get_attribute("id")
    page.keyboard.press("Enter")
    assert page.locator("#detail").is_visible()


def test_browser_finds_the_tiles_of_an_instance(write: Write, show: Show) -> None:
    """A search for an instance marks the tiles of its nodes only."""
    page = show(write("report", racked()))
    page.fill("#find", "web")
    page.locator(".topology.find-on").wait_for()
    assert page.locator(".node.hit").count() == 1
    assert page.locator(".node.hit b").inner_text() == "node4"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_shows_the_details_with_enough_contrast(
    write: Write, show: Show, scheme: str
) -> None:
    """Texts in tiles and details have a contrast of at least 4.5 to 1."""
    from .test_plan_page import CONTRAST

    page = show(write("report", short_of_memory()), color_scheme=scheme)
    page.click("#tile-0")
    assert page.evaluate(CONTRAST) == []


def test_browser_shows_the_topology_on_a_phone(write: Write, show: Show) -> None:
    """On a phone, no part of the topology is wider than the screen."""
    page = show(write("report", short_of_memory()))
    page.set_viewport_size({"width": 390, "height": 800})
    page.click("#tile-0")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    box = page.locator("#detail").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_strip_of_loads_appears_from_a_hundred_nodes_on(write: Write) -> None:
    """With 100 nodes or more, the page has a strip of loads, the most loaded node first."""
    held = {"big": instance("node7", memory=6000)}
    for count, cells in ((99, 0), (100, 100)):
        text = write("report", cluster(count, instances=held)).read_text()
        strip = re.findall(r'<p class="strip".*?</p>', text, re.DOTALL)
        names = re.findall(r'class="hide">(.*?)<', "".join(strip))
        assert len(names) == cells
        assert not names or names[0] == "node7"
