"""Test the forms of a transition: jobs, lines, graphs."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from iallocator.ganeti.commands import job_sets_of_steps, script
from iallocator.ganeti.jobs import transition_document
from iallocator.model.state import State
from iallocator.render.drawing import dot, label, svg
from iallocator.render.plan import add_transition
from iallocator.render.table import Page
from iallocator.transition.assemble import plan_transition
from iallocator.transition.transition import Transition

from .scenarios import machine, make_cluster, scenario

SEEDS = range(12)
SVG = "{http://www.w3.org/2000/svg}"


def transition(seed: int) -> Transition:
    """Return a transition of shared and drbd instances; odd seeds have names with quotes."""
    one = scenario(seed, drbd=0.4)
    found = plan_transition(one.state, one.wanted)
    if seed % 2:
        for step in found.steps:
            assert step.action.instance is not None
            if not step.action.instance.name.endswith('"'):
                step.action.instance.name += ' <&"'
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_depend_as_steps_wait(seed: int) -> None:
    """A job is executed after the jobs on which its first step depends."""
    found = transition(seed)
    document = transition_document(found)
    waits = {step["number"]: step["after"] for step in document["steps"]}
    job_of = {n: k for k, job in enumerate(document["jobs"]) for n in job["steps"]}
    assert sorted(job_of) == sorted(waits)
    for position, job in enumerate(document["jobs"]):
        first, *rest = job["steps"]
        depends = job["opcodes"][0].get("depends", [])
        assert all(states == ["success"] for _, states in depends)
        assert {position + back for back, _ in depends} == {job_of[n] for n in waits[first]}
        assert all(back < 0 for back, _ in depends)
        assert not any("depends" in opcode for opcode in job["opcodes"][1:])
        for before, number in zip(job["steps"], rest):
            assert waits[number] == [before]
        assert len(job["opcodes"]) == len(job["steps"])


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_have_every_step_and_wait(seed: int) -> None:
    """The text of a transition has a numbered line for each step with its dependencies."""
    document = transition_document(transition(seed))
    page = Page(width=10_000)
    page.verbose = True
    add_transition(page, document)
    heading, _, *rows = page.text().splitlines()
    assert heading.startswith(f"Transition: {len(document['steps'])} steps")
    for row, step in zip(rows, document["steps"]):
        assert re.match(rf" +{step['number']}  {step['kind']}", row)
        assert step["instance"] in row
        reported = [int(number) for number in re.findall(r"(\d+) \(", row.replace("(by hand)", ""))]
        assert reported == step["after"]


@pytest.mark.parametrize("seed", SEEDS)
def test_dot_has_a_box_per_step_and_an_arrow_per_wait(seed: int) -> None:
    """A graph in dot has a box for each step and an arrow for each dependency."""
    document = transition_document(transition(seed))
    text = dot(document)
    arrows = re.findall(r"^  s(\d+) -> s(\d+) \[label=\"(?:[^\"\\]|\\.)*\"\];$", text, re.M)
    boxes = re.findall(r"^  s(\d+) \[label=\"(?:[^\"\\]|\\.)*\"(?:, style=dashed)?\];$", text, re.M)
    assert [int(n) for n in boxes] == [step["number"] for step in document["steps"]]
    wanted = [(n, s["number"]) for s in document["steps"] for n in s["after"]]
    assert [(int(a), int(b)) for a, b in arrows] == wanted
    assert len(text.splitlines()) == 4 + len(boxes) + len(arrows)


@pytest.mark.parametrize("seed", SEEDS)
def test_svg_has_a_box_per_step_and_a_curve_per_wait(seed: int) -> None:
    """A graph in SVG has a box for each step and a curve for each dependency.

    Boxes do not overlap, are inside the drawing, and are below their dependencies.
    """
    document = transition_document(transition(seed))
    root = ET.fromstring(svg(document))
    width, height = (float(root.attrib[key]) for key in ("width", "height"))
    boxes: dict[int, tuple[float, float, float, float]] = {}
    for group, step in zip(root.iter(f"{SVG}g"), document["steps"]):
        rect, reported = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        assert rect is not None
        assert reported is not None
        assert (reported.text or "").split("\n")[0] == f"{step['number']}. {label(step)}"
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= width
        assert y >= 0
        assert y + h <= height
        for a, b, c, d in boxes.values():
            assert x >= a + c or a >= x + w or y >= b + d or b >= y + h
        boxes[step["number"]] = x, y, w, h
    assert len(boxes) == len(document["steps"])
    curves = [path for path in root.iter(f"{SVG}path") if path.get("class") == "wait"]
    assert len(curves) == document["waits"]
    for step in document["steps"]:
        for number in step["after"]:
            assert boxes[number][1] + boxes[number][3] < boxes[step["number"]][1]


@pytest.mark.parametrize("count", [15, 200])
def test_svg_of_many_steps_stays_as_wide_as_a_screen(count: int) -> None:
    """A graph in SVG of many independent steps is no wider than a screen."""
    held = [machine(f"{'long-' * 9}{k}", (0,), 1) for k in range(count)]
    one = make_cluster(2, held, memory=count + 1, disk=count + 1)
    found = plan_transition(State(one), {i.name: (1,) for i in held})
    root = ET.fromstring(svg(transition_document(found)))
    assert float(root.attrib["width"]) <= 1300
    assert len(list(root.iter(f"{SVG}g"))) == count


def test_script_has_the_steps_level_by_level() -> None:
    """The script has the steps in levels, which contain no dependencies."""
    held = [machine("a", (0,), 8), machine("b", (1,), 7)]
    one = make_cluster(2, held)
    found = plan_transition(State(one), {"a": (1,), "b": (0,)})
    shell = script(one, job_sets_of_steps(found))
    assert [line.strip() for line in shell if "gnt" in line] == [
        "gnt-instance shutdown b",
        "gnt-instance migrate -f -n node2 a",
        "gnt-instance failover -f -n node1 b",
        "gnt-instance startup b",
    ]
