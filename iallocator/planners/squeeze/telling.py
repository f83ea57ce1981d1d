"""What squeezing found as plain data, as lines for people, and as commands."""

from __future__ import annotations

from iallocator.planners.balance.telling import command_lines, plan_document, plan_lines
from iallocator.planners.squeeze.power_state import Switched
from iallocator.transition.power import power_down, power_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.planners.squeeze.result import SqueezeResult
    from iallocator.transition.power import Section
    from iallocator.transition.transition import Transition

    Json = dict[str, object]

__all__ = ["squeeze_commands", "squeeze_document", "squeeze_lines", "squeeze_transition"]

TITLES = {"offline": "Nodes to offline", "online": "Nodes to online", "none": "No action"}


def squeeze_transition(done: SqueezeResult) -> Transition:
    """The steps of nodes and instances, and what each waits for."""
    from iallocator.transition.assemble import transition_of_moves
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import room

    moves = [
        (move.instance, move.before, move.steps) for one in done.plans for move in one.plan.moves
    ]
    nodes = Demands(
        power_on=done.nodes if done.action == "online" else (),
        power_off=done.nodes if done.action == "offline" else (),
        add_tags=done.added,
        remove_tags=done.removed,
    )
    left = room(done.before)
    with Switched(done.cluster, on=nodes.power_on):  # nothing runs there that needs fencing
        return transition_of_moves(done.cluster, left, moves, around=nodes)


def squeeze_document(done: SqueezeResult, transition: Json) -> Json:
    """Everything; see ``schemas/plan.schema.json``."""
    commands = [command for _, some in _sections(done) for command in some]
    return {
        **plan_document(done.cluster, done.plans),
        "command": "squeeze",
        "action": done.action,
        "nodes": _names(done, done.nodes),
        "kept": [
            {"node": done.cluster.nodes[index].name, "reason": reason}
            for index, reason in done.kept.items()
        ],
        "tags": {"add": _by_name(done, done.added), "remove": _by_name(done, done.removed)},
        "transition": transition,
        "commands": [c.strip() for c in commands if not c.strip().startswith("echo ")],
    }


def squeeze_commands(done: SqueezeResult) -> list[str]:
    """Lines for a shell that carry everything out, in order."""
    lines: list[str] = []
    for title, commands in _sections(done):
        if not commands:
            continue
        if title:
            lines.append(f"echo {title}")
        lines += (f"  {command}" if title else command for command in commands)
    return lines


def squeeze_lines(done: SqueezeResult) -> Iterator[str]:
    """For people: the nodes, the moves, and why the others stay as they are."""
    yield TITLES[done.action] + (":" if done.nodes else "")
    yield from (f"  {name}" for name in _names(done, done.nodes))
    yield ""
    yield from plan_lines(done.cluster, done.plans)
    if done.kept:
        yield ""
        yield "Left as they are:"
        names = _names(done, list(done.kept))
        width = max(map(len, names))
        for name, reason in zip(names, done.kept.values()):
            yield f"  {name:{width}}  {reason}"


def _sections(done: SqueezeResult) -> list[Section]:
    moves: list[Section] = [("", command_lines(done.cluster, done.plans))]
    names = _names(done, done.nodes)
    if done.action == "offline":
        return list(power_down(names, _by_name(done, done.added), moves))
    return list(power_on(names, _by_name(done, done.removed), moves))


def _names(done: SqueezeResult, indices: Sequence[int]) -> list[str]:
    return done.cluster.node_names(indices)


def _by_name(done: SqueezeResult, tags: Mapping[int, list[str]]) -> dict[str, list[str]]:
    return {done.cluster.nodes[index].name: some for index, some in tags.items()}
