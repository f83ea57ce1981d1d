"""Answer ``multi-allocate``: place several new instances, one after the other."""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.handlers.allocate import allocation_request, policy_warning, why_nowhere
from iallocator.placement.groups import collect_offers, ranked_by_losses
from iallocator.placement.several.joint import in_possible_order, offer_chosen, place_together
from iallocator.placement.several.optimal import best_batch
from iallocator.placement.several.sequence import in_turn
from iallocator.reply import Reply
from iallocator.tolerances import WRITTEN_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.results import AllocationRequest, GroupSolution
    from iallocator.requests import Allocate, MultiAllocate

__all__ = ["multi_allocate"]


def multi_allocate(context: Context, request: MultiAllocate) -> Reply:
    """Place each instance on the best nodes that the earlier instances left.

    If an instance fits on no node, exact search places all instances jointly. If not all of them
    fit, only those without a placement fail, each with its name; hail fails the whole batch.
    """
    batch = _Batch()
    _place_in_turn(context, request.wanted, batch)
    batch.put_in_order(request.wanted)
    note = ""
    if batch.failed and not context.deadline.over():
        allocations = _allocations(context, request)
        failed = {name for name, _ in batch.failed if name in allocations}
        groups = (g for name in allocations if name in failed for g in allocations[name].groups)
        if context.searches_for(groups):
            # Place all instances, or more than before, by exact search; else keep the batch
            _take_off(context, batch)
            joint = place_together(context, list(allocations.values()), failed)
            exact = _exactly(context, request, allocations, joint.places) if joint.places else None
            if exact is None:
                _put_back(context, batch)
            batch, note = exact or batch, joint.note()
    placed = {instance.name: nodes for instance, nodes in batch.placed}
    if context.settings.optimal and placed:
        if context.deadline.over():
            note += f"; no optimum: {TIME_IS_UP}"
        else:
            # Place the instances of the batch at the lowest cost
            allocations = _allocations(context, request)
            _take_off(context, batch)
            some = [allocation for name, allocation in allocations.items() if name in placed]
            optimum, best = best_batch(context, some, placed)
            exact = _exactly(context, request, allocations, best) if best != placed else None
            if exact is None:
                _put_back(context, batch)
            batch, note = exact or batch, note + optimum
    # Add the violated orders that were met, or not known, when the entries were made
    entries = {entry["instance"]: entry for entry in batch.entries}
    for instance, _ in batch.placed:
        known = entries[instance.name].get("broken", [])
        more = [text for text in context.affinity.unmet_orders(instance) if text not in known]
        if more:
            entries[instance.name]["broken"] = [*known, *more]
    return batch.reply(note, whole=context.settings.behaviour.fails_batch_whole)


class _Batch:
    """The results of several new instances, in the order of the request.

    Attributes
    ----------
    placed:
        (instance, node indices) for each instance that is placed.
    failed:
        (name, reason) for each other instance.
    """

    __slots__ = ("entries", "failed", "placed", "warnings")

    def __init__(self) -> None:
        self.placed: list[tuple[Instance, tuple[int, ...]]] = []
        self.failed: list[tuple[str, str]] = []
        self.entries: list[dict[str, Any]] = []
        self.warnings: list[str] = []

    def put_in_order(self, wanted: Sequence[Allocate]) -> None:
        """Sort all results by the first positions of their instances in `wanted`."""
        names = dict.fromkeys(one.instance.name for one in wanted)
        position = {name: k for k, name in enumerate(names)}
        self.entries.sort(key=lambda entry: position[entry["instance"]])
        self.failed.sort(key=lambda failure: position[failure[0]])

    def reply(self, note: str, whole: bool) -> Reply:
        """Return the reply; if `whole`, one failed instance makes the request fail."""
        if whole and self.failed:
            return Reply(False, self.failed[0][1], [], self.entries)
        info = (
            f"{len(self.failed)} instances failed to allocate and "
            f"{len(self.placed)} were allocated successfully"
        )
        info += "".join(f"; {name}: {why}" for name, why in self.failed)
        info += "".join(dict.fromkeys(self.warnings)) + note
        allocated = [[e["instance"], e["nodes"]] for e in self.entries if e["nodes"]]
        result = [allocated, [name for name, _ in self.failed]]
        return Reply(bool(allocated) or not self.failed, info, result, self.entries)


def _place_in_turn(context: Context, wanted: Sequence[Allocate], batch: _Batch) -> None:
    """Place each of `wanted` on the best nodes left; once the time is up, the others fail."""
    undecided = {one.instance.name: one for one in wanted}
    try:
        for position in in_turn(context, [one.instance for one in wanted]):
            check()
            _place(context, wanted[position], batch)
            del undecided[wanted[position].instance.name]
            if batch.failed and context.settings.behaviour.fails_batch_whole:
                break
    except Stopped as stop:
        if stop.interrupted:
            raise
        for one in undecided.values():
            _fail(batch, one, TIME_IS_UP, [])
    # Fail the instances that depend on one that failed, although they have a place themselves
    names = {name for name, _ in batch.failed}
    done = [instance for instance, _ in batch.placed]
    chains = context.affinity.dependents_of_failed(done, names, ordered=True)
    for instance, nodes in list(batch.placed):
        if instance.name in chains:
            context.state.remove(instance, nodes)
            batch.placed.remove((instance, nodes))
            why = f"it {chains[instance.name]}"
            batch.failed.append((instance.name, why))
            entry = next(e for e in batch.entries if e["instance"] == instance.name)
            entry |= {"nodes": [], "reason": why}


def _place(context: Context, wanted: Allocate, batch: _Batch) -> None:
    """Place one instance on the state, or report why it cannot be placed."""
    allocation = allocation_request(context, wanted)
    if allocation is None:
        _fail(batch, wanted, f"Group {wanted.group_name} does not exist", [])
        return
    stays = context.settings.behaviour.keeps_batch_in_first_group
    if stays and batch.entries and ranked_by_losses(context, allocation):
        # where lost allocations decide, hail knows only the first instance's group from then on
        first = batch.entries[0]["group"]
        allocation.groups = [group for group in allocation.groups if group.name == first]
    offers = collect_offers(context, allocation)
    groups = [offer.document(context.settings.top) for offer in offers.ranked]
    if offers.best is None:
        _fail(batch, wanted, why_nowhere(context, allocation, offers), groups)
    else:
        _take(context, batch, wanted, offers.best, groups)


def _take(
    context: Context,
    batch: _Batch,
    wanted: Allocate,
    offer: GroupSolution,
    groups: list[dict[str, Any]],
) -> None:
    """Place the instance on the best nodes of `offer`, and record the result."""
    context.state.place(wanted.instance, offer.nodes[0])
    batch.placed.append((wanted.instance, offer.nodes[0]))
    batch.warnings.append(policy_warning(offer))
    score, nodes = offer.placements[0]
    batch.entries.append(
        {
            "instance": wanted.instance.name,
            "group": offer.group,
            "nodes": nodes,
            "score": round(score, WRITTEN_DECIMALS),
            **offer.extra,
            "groups": groups,
        }
    )


def _fail(batch: _Batch, wanted: Allocate, why: str, groups: list[dict[str, Any]]) -> None:
    name = wanted.instance.name
    batch.failed.append((name, why))
    batch.entries.append({"instance": name, "nodes": [], "reason": why, "groups": groups})


def _allocations(context: Context, request: MultiAllocate) -> dict[str, AllocationRequest]:
    """Return name of an instance -> where it may be placed; unknown groups are left out."""
    allocations = {
        wanted.instance.name: allocation_request(context, wanted) for wanted in request.wanted
    }
    return {name: allocation for name, allocation in allocations.items() if allocation is not None}


def _take_off(context: Context, batch: _Batch) -> None:
    for instance, nodes in reversed(batch.placed):
        context.state.remove(instance, nodes)


def _put_back(context: Context, batch: _Batch) -> None:
    for instance, nodes in batch.placed:
        context.state.place(instance, nodes)


def _exactly(
    context: Context,
    request: MultiAllocate,
    allocations: Mapping[str, AllocationRequest],
    places: Mapping[str, tuple[int, ...]],
) -> _Batch | None:
    """Place the instances on the nodes in `places`, and the others where capacity is left.

    If the check of such a placement needs more work than the budget of the request has left, the
    function undoes all placements and returns None.
    """
    batch = _Batch()
    order = in_possible_order(context, list(allocations.values()), places)
    if len(order) < len(places):
        return None
    by_name = {wanted.instance.name: wanted for wanted in request.wanted}
    for name in order:
        offer = offer_chosen(context, allocations[name], places[name])
        if not offer.placements:
            _take_off(context, batch)
            return None
        _take(context, batch, by_name[name], offer, [offer.document(1)])
    left = [wanted for wanted in request.wanted if wanted.instance.name not in places]
    _place_in_turn(context, left, batch)
    as_asked = [name for name in by_name if name in places] == order
    batch.put_in_order(request.wanted if as_asked else [by_name[n] for n in (*order, *by_name)])
    return batch
