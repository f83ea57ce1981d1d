"""A trial that is interrupted, by the alarm or by Ctrl-C, at any line of this program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from linecache import getline
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from iallocator import deadline, model
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests import builders

from .test_state import picture

MODEL = str(Path(model.__file__).parent)

Strike = Callable[[FrameType], None]


def settled() -> tuple[State, list[Instance]]:
    """Return a state with mirrored instances, whose first two are taken off."""
    ours = {f"i{k}": builders.instance("node1", "node2", memory=100 + k) for k in range(4)}
    state = State(read_cluster(builders.cluster(4, instances=ours), Reading()))
    apart = state.cluster.instances[:2]
    for one in apart:
        state.remove(one, state.where[one.name])
    return state, apart


def try_out(state: State, apart: list[Instance]) -> None:
    """Place and remove, in a trial and in another one inside it."""
    one, other = apart
    with state.trial():
        state.place(one, (2, 3))
        with state.trial():
            state.place(other, (0, 3))
            state.remove(one, (2, 3))
            state.place(one, (1, 2))
        state.remove(one, (2, 3))


def at_the_edge(frame: FrameType) -> bool:
    """Whether a trial begins or ends there: signals are heard within that call, not before."""
    return getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("with ")


def interrupted_at(moment: int, strike: Strike) -> tuple[bool, State, dict[str, Any]]:
    """Try out, and strike from the line of that number on until something is raised.

    Whether something was, the state after it, and a picture of it before.
    """
    state, apart = settled()
    before = picture(state)
    seen, version = 0, state.version

    def traced(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        name = frame.f_code.co_filename
        if not (name.startswith(MODEL) or frame.f_code is try_out.__code__):
            return None
        seen += event == "line"
        if event == "line" and seen > moment and not at_the_edge(frame):
            strike(frame)
        return traced

    tracing = sys.gettrace()
    sys.settrace(cast(Any, traced))
    try:
        try_out(state, apart)
        raised = False
    except KeyboardInterrupt:
        raised = True
    finally:
        sys.settrace(tracing)
    assert state.version == version
    assert not state.trying
    return raised, state, before


def ring(frame: FrameType) -> None:
    """As the alarm does where it finds that frame."""
    deadline._ring(0, frame)


def break_off(frame: FrameType) -> None:
    """As Ctrl-C does, which waits for nothing; where a trial begins and ends is left out."""
    if frame.f_code.co_name in ("place", "remove", "_record", "_touch", "_add", "_drop", "restore"):
        raise KeyboardInterrupt


def test_alarm_interrupts_the_counting_of_a_new_state() -> None:
    """Nobody has seen that yet; a planner that makes one after the other would go on for long."""
    found: list[bool] = []

    def traced(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_name in ("place", "_add"):
            found.append(deadline._whole(frame))

    document = builders.cluster(2, instances={"a": builders.instance("node1")})
    cluster = read_cluster(document, Reading())
    tracing = sys.gettrace()
    sys.settrace(cast(Any, traced))
    state = State(cluster)
    (one,) = cluster.instances
    state.remove(one, one.nodes)
    state.place(one, one.nodes)
    sys.settrace(tracing)
    assert found == [False, False, True, True]


@pytest.mark.parametrize("strike", [ring, break_off])
def test_interrupted_trial_leaves_the_state_as_it_was(
    strike: Strike, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever line it comes at; the alarm waits until a change of the state is whole."""
    later = SimpleNamespace(setitimer=lambda *_: None, ITIMER_REAL=0)
    monkeypatch.setattr(deadline, "_signal", later)
    moment, struck = 0, 0
    while True:
        raised, state, before = interrupted_at(moment, strike)
        assert picture(state) == before, moment
        if not raised:
            break
        moment, struck = moment + 1, struck + 1
    assert struck > 60
