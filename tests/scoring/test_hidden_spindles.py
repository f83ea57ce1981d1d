"""Test instances with unknown spindles on exclusive storage, which hail counts specially."""

from __future__ import annotations

import pytest

from iallocator.compat import behaviour_of
from iallocator.model.columns import FREE_SPINDLES
from iallocator.model.state import State
from iallocator.scoring import Kernels
from iallocator.scoring.scalar import score_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json, cluster, instance

FREE = {"node1": 4, "node2": 15, "node3": 9}


def _stored(spindles: int | None) -> Json:
    disk = {"size": 1024, "mode": "rw", "dev_type": "ext", "spindles": spindles}
    return instance("node1", disk_template="ext", disks=[disk])


def _state() -> State:
    document = cluster(3, instances={"known": _stored(2), "unknown": _stored(None)})
    for name, free in FREE.items():
        document["nodes"][name] |= {"total_spindles": 20, "free_spindles": free}
        document["nodes"][name]["ndparams"]["exclusive_storage"] = True
    return State(read_cluster(document, Reading(behaviour=behaviour_of("hail"))))


def _free(state: State) -> dict[str, float]:
    return {node.name: state.columns[FREE_SPINDLES][node.index] for node in state.cluster.nodes}


def test_node_that_gets_unknown_spindles_has_minus_one_and_keeps_it() -> None:
    """A node with an instance of unknown spindles has -1 free spindles from then on."""
    state = _state()
    known, unknown = sorted(state.cluster.instances, key=lambda one: one.name)
    index = {node.name: node.index for node in state.cluster.nodes}
    state.remove(unknown, (index["node1"],))
    state.place(unknown, (index["node2"],))
    assert _free(state) == FREE | {"node2": -1}
    state.remove(known, (index["node1"],))
    state.place(known, (index["node2"],))
    assert _free(state) == FREE | {"node1": 6, "node2": -3}
    state.remove(unknown, (index["node2"],))
    state.place(unknown, (index["node1"],))
    assert _free(state) == FREE | {"node1": 6, "node2": -3}


@pytest.mark.parametrize("arrays", [False, True])
def test_candidate_with_unknown_spindles_has_the_score_of_the_state_after_it(arrays: bool) -> None:
    """The predicted score of a candidate with unknown spindles is that of the state after it."""
    state = _state()
    scope = range(len(state.cluster.nodes))
    unknown = next(one for one in state.cluster.instances if one.name == "unknown")
    state.remove(unknown, unknown.nodes)
    kernels = Kernels(state, ())
    kernel = kernels.make_array(state, scope) if arrays else kernels.make(state, scope)
    others = [index for index in scope if index not in unknown.nodes]
    found = list(kernel.singles(unknown, others, {}).row(0))
    assert len(found) == 2
    for score, nodes in found:
        with state.trial():
            state.place(unknown, nodes)
            assert score == pytest.approx(score_of(state, scope), abs=1e-9)
