"""The score of a state is the sum of its terms, and terms are foretold as they come to be."""

from __future__ import annotations

import pytest

from iallocator.scoring.scalar import kernel_of, score_of, terms_of

from .answers import context_for, seeded


@pytest.mark.parametrize("seed", range(20))
def test_terms_of_a_placement_are_those_of_the_state_with_it(seed: int) -> None:
    """What is foretold for an instance on other nodes comes true when it is there."""
    context, _ = context_for(seeded(seed, "allocate"))
    state, scope = context.state, context.all_nodes()
    for instance in context.cluster.instances[:5]:
        with state.trial():
            state.remove(instance, instance.nodes)
            nodes = instance.nodes[::-1]
            foretold = kernel_of(state, scope).terms_of(instance, nodes)
            state.place(instance, nodes)
            assert foretold == pytest.approx(terms_of(state, scope), abs=1e-9)
            assert score_of(state, scope) == pytest.approx(sum(foretold), abs=1e-9)
