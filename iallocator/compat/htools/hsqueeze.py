"""hsqueeze: power nodes down, or on, by the capacity that is free on the online nodes."""

from __future__ import annotations

from iallocator.compat.htools.backend import initial_state, load, save, settings_of, write
from iallocator.compat.htools.errors import ProgramError
from iallocator.compat.htools.formats import domain
from iallocator.deadline import Deadline
from iallocator.errors import say
from iallocator.model.moves import replay
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.plan_limits import StopCriteria
from iallocator.planners.squeeze.headroom import MOVE_SHARED, Headroom, SqueezeOptions
from iallocator.tags.standby import is_standby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.compat.htools.backend import Given
    from iallocator.planners.squeeze.result import SqueezeResult
    from iallocator.sources import Source

__all__ = ["run"]

HSQUEEZE_TITLES = {
    "offline": "'Nodes to offline'",
    "online": "'Nodes to online'",
    "none": "'No action'",
}

NOTHING_COMMAND = ["echo Nothing to do"]
"""The shell commands if no node is powered on or down."""

STANDBY_AUTO_TAG = "htools:standby:auto"
"""The tag of nodes that hsqueeze has powered down."""


def run(given: Given) -> int:
    """Print the nodes to power down or on; return the exit status."""
    source = load(given, Settings())
    cluster = source.cluster
    state = initial_state(given, source)
    down, up = candidates(state, source.masters)
    if given.verbose:
        print(f"Offline candidates: {','.join(down)}")
        print(f"Online candidates: {','.join(up)}")
    minimal = SqueezeOptions.minimal if given.minimal_resources is None else given.minimal_resources
    reserve = Headroom(source.policy.standard, minimal)
    short = any(reserve.missing(state, group.nodes) for group in cluster.groups)
    done = _squeeze(given, source, minimal) if down or short else None
    if given.save is not None:
        _save(given.save, "original", "before hsqueeze run", source, done.before if done else state)
    names = switched(done) if done else []
    action = "none" if done is None else "online" if done.aim == "online" else done.action
    if not given.no_headers:
        print(HSQUEEZE_TITLES[action])
    if names:
        print("\n".join(names))
    if done and done.shortages and given.verbose:
        print("Onlining all nodes will not yield enough capacity")
    if given.print_commands is not None:
        from iallocator.compat.htools.hbal import shell_script, spread

        lines = _commands(done) if done else NOTHING_COMMAND
        if given.print_commands is True:
            print("\nCommands to run:")
            print("\n".join(f"  {line}" for line in spread(lines)))
        else:
            script = shell_script(lines)
            write(
                given.print_commands,
                script.removesuffix("\n") if lines == NOTHING_COMMAND else script,
            )
            print(f"The commands have been written to file '{given.print_commands}'")
    if given.exec and action != "none":
        raise ProgramError("Error: hsqueeze: Execution of commands possible only on LUXI")
    if given.save is not None:
        what = {"offline": "run", "online": "expansion", "none": "doing nothing"}[action]
        moment = f"after hsqueeze {what}"
        if done is None:
            _save(given.save, "squeezed", moment, source, state)
            return 0
        with done.switched():  # htools save the cluster before it is tagged
            after = State(cluster)
            replay(after, done.moves)
            _save(given.save, "squeezed", moment, source, after)
    return 0


def _squeeze(given: Given, source: Source, minimal: float) -> SqueezeResult:
    """Return the plan of `squeeze` for all groups together, as hsqueeze plans.

    If this plan moves an instance to another group, return the plan that keeps instances in their
    groups: Ganeti rejects moves between groups.
    """
    from iallocator.commands.planner_options import Squeeze
    from iallocator.planners.squeeze.squeeze import squeeze_cluster

    own = Squeeze()
    settings_of(given, own)
    cluster, target = source.cluster, given.target_resources
    options = SqueezeOptions(
        StopCriteria(min_gain=0.0, deadline=Deadline(None)),
        own,
        target=SqueezeOptions.target if target is None else target,
        minimal=minimal,
        masters=source.masters,
        kinds=MOVE_SHARED,
    )
    homes = [node.group for node in cluster.nodes]
    if len(set(homes)) > 1:
        cluster.regroup([homes[0]] * len(homes))
        try:
            done = squeeze_cluster(cluster, source.policy, options)
        finally:
            cluster.regroup(homes)
        moves = ({homes[index] for index in (*m.before, *m.after)} for m in done.moves)
        if all(len(groups) == 1 for groups in moves):
            return done
    return squeeze_cluster(cluster, source.policy, options)


def _save(path: str, ending: str, moment: str, source: Source, state: State) -> None:
    """Write the cluster in `state` to `path` with the `ending`; print a line with the `moment`."""
    save(f"{path}.{ending}", source, state)
    say(f"The cluster state {moment} has been written to file '{path}.{ending}'")


def switched(done: SqueezeResult) -> list[str]:
    """Return the names of the nodes that are powered down or on, in the order of candidates."""
    if done.coming:
        return done.cluster.node_names(sorted(done.coming, reverse=True))
    held = done.before.primaries
    return done.cluster.node_names(sorted(done.leaving, key=lambda k: (-len(held[k]), -k)))


def candidates(state: State, masters: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the nodes that may be powered down, and those that may be powered on.

    The nodes to power down with the most instances come first.
    """
    cluster = state.cluster
    local = {i for one in cluster.instances for i in one.nodes if one.local}
    nodes = cluster.nodes[::-1]
    down = [
        node
        for node in nodes
        if node.online and node.name not in masters and node.index not in local
    ]
    down.sort(key=lambda node: -len(state.primaries[node.index]))
    up = [node.name for node in nodes if node.offline and is_standby(node)]
    return [node.name for node in down], up


def _commands(done: SqueezeResult) -> list[str]:
    """Return the shell commands: power nodes on; or move instances, add tags and power nodes down.

    The common end of all names is left out of the names of nodes.
    """
    from iallocator.compat.htools.hbal import command_lines

    end = domain(done.cluster)
    names = [name.removesuffix(end) for name in switched(done)]
    jobs = []
    for line in command_lines(done, ""):
        words = line.split(" ")
        if "-n" in words:
            place = words.index("-n") + 1
            words[place] = words[place].removesuffix(end)
        jobs.append(" ".join(words))
    if not names and done.aim != "online":
        return NOTHING_COMMAND
    power = "on" if done.aim == "online" else "off"
    switches = ["echo Power Commands", *(f"  gnt-node power -f {power} {name}" for name in names)]
    if done.aim == "online":
        return [*switches, *jobs]
    tags = [
        "",
        "echo Tagging Commands",
        *(f"  gnt-node add-tags {name} {STANDBY_AUTO_TAG}" for name in names),
    ]
    return [*jobs, *tags, "", *switches]
