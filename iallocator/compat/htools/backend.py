"""Read the cluster with the messages of htools, and print lists in their form."""

from __future__ import annotations

import posix  # `os` loads more: see `iallocator.light`

from iallocator.compat.hail import HAIL_IN_ORDER
from iallocator.compat.htools.errors import NamedError, ProgramError
from iallocator.compat.htools.formats import decimal, table
from iallocator.errors import IallocatorError, Voice, say
from iallocator.files import read_file
from iallocator.light import exists
from iallocator.model.cluster import set_loads
from iallocator.model.state import MISSING_DISK, MISSING_MEMORY, State
from iallocator.names import meant
from iallocator.options.settings import Settings
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import score_of, terms_of
from iallocator.sources import load as load_source
from iallocator.sources import source_of_document, source_of_text
from iallocator.sources.lines import default_policy
from iallocator.units import GIB
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from iallocator.model.cluster import Cluster, Group, Load
    from iallocator.planners.result import GroupPlans
    from iallocator.sources import Source
    from iallocator.wire.fields import Raw

    Read = TypeVar("Read")

__all__ = [
    "NOT_LOADED", "Given", "adjust", "balanced", "cluster_score", "group_of",
    "initial_state", "load", "save", "saved_text", "scores",
    "settings_of", "show_lists", "silently", "split_instances", "warn", "write",
]  # fmt: skip

NOT_LOADED = "Error: failed to load data, aborting: "
"""The beginning of the message of an error in reading the cluster."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"

IGNORED = (b"\r", b" |", b"\t|", b" \n", b"\t\n", b"| ", b"|\t")
"""Bytes in a text file that are no error for this program's own commands."""


class Given:
    """The values of the options of one run; None for an option that was not given."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        """Return None: the option `name` was not given."""
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def loudness(self) -> int:
        """Return the level of detail of the output: 0 for the least; by default 1."""
        return max(0, self._loudness)

    @property
    def warns(self) -> bool:
        """Return whether inconsistent data are reported: not with one ``-q``, but with several."""
        return self._loudness != 0

    @property
    def _loudness(self) -> int:
        return 1 + len(self.verbose or ()) - len(self.quiet or ())


def settings_of(given: Given, settings: Settings) -> Settings:
    """Set the options that all programs of htools share in `settings`, and return `settings`."""
    settings.compat = "hail"
    settings.no_config = True
    settings.text_data = settings.ialloc_src = settings.rapi = ""
    if given.master:
        settings.rapi = given.master
    elif given.luxi is not None:
        settings.luxi = "" if given.luxi is True else given.luxi
    elif given.simulate:
        settings.simulate = given.simulate[::-1]
    elif given.text_data is not None:
        if not given.text_data:
            raise _not_found()
        settings.text_data = given.text_data
    elif given.ialloc_src is not None:
        if not given.ialloc_src:
            raise _not_found()
        settings.ialloc_src = given.ialloc_src
    else:
        raise ProgramError(f"{NOT_LOADED}No backend selected! Exiting.")
    settings.ignore_dynu = bool(given.ignore_dynu)
    settings.exclusion_tags = given.exclusion_tags or ()
    if given.static_kvm_node_memory is not None:
        settings.static_kvm_node_memory = given.static_kvm_node_memory
    settings.mond = "" if given.mond is None else "yes" if given.mond else "no"
    settings.mond_data = (given.mond_data or "") if given.mond else ""
    settings.mond_xen = bool(given.mond_xen)
    settings.exit_on_missing_mond_data = bool(given.exit_on_missing_mond_data)
    settings.insecure = bool(settings.rapi) and not settings.rapi.startswith("file:")
    return settings


def silently(read: Callable[[], Read]) -> Read:
    """Return the result of `read`, and suppress the warnings about documents that it prints.

    htools do not have these warnings. An example is the warning about a duplicate member.
    """
    before, Voice.quiet = Voice.quiet, True
    try:
        return read()
    finally:
        Voice.quiet = before


def _loads(given: Given) -> dict[str, Load]:
    """Return the loads in the file of ``-U``, which htools read before the cluster.

    Raises
    ------
    ProgramError
        If there are several sources of the cluster, or the file of loads has an error.
    """
    sources = [bool(given.master), given.luxi is not None, given.text_data is not None]
    if sum(sources) > 1:
        raise ProgramError(
            "Error: Only one of the rapi, luxi, and data files options should be given."
        )
    if given.dynu_file is None:
        return {}
    from iallocator.compat.htools.utilisation import read_loads

    return dict(read_loads(given.dynu_file))


def load(given: Given, settings: Settings, in_order: bool = False) -> Source:
    """Return the cluster that the options name; inconsistent data are reported on stderr.

    `in_order`: whether nodes and instances keep the order of the source. Otherwise, the order is
    reversed, as in the planners of htools.

    Raises
    ------
    ProgramError
        If the cluster cannot be read, or an option names an unknown node.
    """
    loads = _loads(given)
    settings_of(given, settings)
    if settings.rapi:
        from iallocator.compat.htools.rapi_errors import folder_problem
        from iallocator.sources.live.load import FILE_SCHEME

        folder = settings.rapi.removeprefix(FILE_SCHEME)
        if folder != settings.rapi and (problem := folder_problem(folder, settings.max_input)):
            raise ProgramError(f"{NOT_LOADED}{problem}")
    reading = Reading.of(settings)
    if in_order:
        reading.behaviour = HAIL_IN_ORDER
    raw = b""
    try:
        if settings.text_data:
            raw = _read_text_file(settings)
            source = silently(lambda: source_of_text(raw, settings, reading))
        elif settings.ialloc_src:
            from iallocator.compat.htools.message_errors import message_problem

            raw = read_file(settings.ialloc_src, settings.max_input)
            if problem := message_problem(raw):
                raise ProgramError(f"Error: {problem}")
            source = silently(lambda: source_of_document(raw, settings.ialloc_src, reading))
        else:
            source = silently(lambda: load_source(settings, (), reading))
    except IallocatorError as error:
        raise ProgramError(f"{NOT_LOADED}{_reason(error, settings, raw)}") from None
    cluster = source.cluster
    if settings.ialloc_src:
        source.policy = default_policy()  # htools ignore the policy of the cluster in a message
    if given.dynu_file is not None and not given.ignore_dynu:
        set_loads(cluster, loads)
    if settings.ialloc_src:
        assert source.document is not None
        warn(_read_as_hail(source.document))
    known = {one.name for one in cluster.instances}
    named = [*(given.select_instances or ()), *(given.exclude_instances or ())]
    unknown = [word for word in named if not meant(word, known)]
    if unknown:
        listed = ",".join(f'"{word}"' for word in unknown)
        raise ProgramError(f"{NOT_LOADED}Unknown instance(s): [{listed}]")
    if settings.measures:
        from iallocator.compat.htools.utilisation import measure

        measure(cluster, settings)
    if given.warns:
        source.state = warn(cluster, in_order)
    return source


def initial_state(given: Given, source: Source) -> State:
    """Return the placement of all instances; call it once, after `adjust`."""
    if source.state is None or given.offline:  # counts of locations depend on offline nodes
        return State(source.cluster)
    return source.state


def _read_as_hail(document: Raw) -> Cluster:
    """Return the cluster of a message with hail's amounts of memory, which `warn` compares."""
    from iallocator.wire.document import read_cluster

    as_hail = Settings()
    as_hail.compat, as_hail.no_config = "hail", True
    as_hail.static_kvm_node_memory = 0
    return read_cluster(document, Reading.of(as_hail))


def _not_found(path: str = "") -> ProgramError:
    """Return the error for a file at `path` that cannot be read."""
    from iallocator.compat.htools.text_errors import complain_of_file

    return ProgramError(f"{NOT_LOADED}{complain_of_file(path)}")


def _read_text_file(settings: Settings) -> bytes:
    """Return the content of the text file of the cluster, without characters that htools reject.

    htools do not accept a byte order mark, ends of lines as in DOS, or blanks in numbers.

    Raises
    ------
    ProgramError
        If the file has an error for htools.
    UsageError
        If the file cannot be read.
    """
    path = settings.text_data
    if path == "-" and not exists(path):  # not standard input
        raise _not_found(path)
    raw = read_file(path if path != "-" else "./-", settings.max_input)
    try:
        raw.decode("utf-8")
    except UnicodeError:
        problem = "hGetContents: invalid argument (invalid byte sequence)"
        raise NamedError(f"{path}: {problem}") from None
    if raw.startswith(BYTE_ORDER_MARK) or any(some in raw for some in IGNORED):
        from iallocator.compat.htools.text_errors import text_error

        if problem := text_error(raw):
            raise ProgramError(f"{NOT_LOADED}{problem}")
    return raw


def balanced(given: Given, cluster: Cluster, group: Group | None = None) -> GroupPlans:
    """Balance `group`, or all groups, and return the plans."""
    from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.plan_limits import StopCriteria

    own = settings_of(given, Settings())
    numbers = ("min_score", "min_gain", "min_gain_limit", "max_length")
    limits = {name: value for name in numbers if (value := getattr(given, name)) is not None}
    if limits.get("max_length", 0) < 0:
        del limits["max_length"]
    rules = MoveRules(
        disk_moves=not given.no_disk_moves,
        instance_moves=not given.no_instance_moves,
        restricted=bool(given.restricted_migration),
        evacuate_only=bool(given.evac_mode),
        behaviour=own.behaviour,
    )
    own.ignore_soft_errors = bool(given.ignore_soft_errors)
    options = BalanceOptions(
        StopCriteria(**limits),
        rules,
        group="" if group is None else group.name,
        all_groups=group is None,
        selected=given.select_instances or None,
        excluded=given.exclude_instances or (),
        min_disk=given.min_disk or 0.0,
        tag_prefix=own.tag_prefix,
        settings=own,
    )
    return balance_cluster(cluster, options)


def adjust(given: Given, cluster: Cluster) -> None:
    """Set nodes of `cluster` offline, and the ratio of virtual cpus to cpus, by the options.

    Raises
    ------
    ProgramError
        If an option names an unknown node.
    """
    names = [node.name for node in cluster.nodes]
    offline = {word: meant(word, names) for word in given.offline or ()}
    if wrong := [word for word, known in offline.items() if len(known) != 1]:
        raise ProgramError(f"Error: wrong node name(s) set as offline: {','.join(wrong)}\n")
    down = {known[0] for known in offline.values()}
    for node in cluster.nodes:
        if node.name in down:
            node.offline, node.online = True, False
    if given.max_cpu is not None:
        from iallocator.planners.eligible import set_vcpu_ratio

        set_vcpu_ratio(cluster, given.max_cpu)


def _reason(error: IallocatorError, settings: Settings, raw: bytes) -> str:
    """Return why the cluster cannot be read, in the words of htools if they are known.

    `raw`: the content of the text file of the cluster.
    """
    from iallocator.compat.htools.text_errors import (
        complain_of_file,
        simulation_error,
        text_error,
    )

    for path in (settings.text_data, settings.ialloc_src):
        if path and (exists(f"{path}/") or not posix.access(path, posix.R_OK)):
            return complain_of_file(path)
    if settings.rapi or settings.luxi is not None:
        from iallocator.compat.htools.rapi_errors import connection_problem

        return connection_problem(error, settings.rapi) or str(error)
    if settings.simulate:
        return simulation_error(settings.simulate[::-1]) or str(error)
    if settings.text_data:
        return text_error(raw) or str(error)
    return str(error)


def warn(cluster: Cluster, in_order: bool = False) -> State:
    """Report the nodes with inconsistent data on stderr, by the sums that htools compare.

    Return the placement of all instances.
    """
    state = State(cluster)
    warnings = []
    for node in cluster.nodes[:: -1 if in_order else 1]:
        memory, disk = state.missing(node.index)
        here = (*state.primaries[node.index].values(), *state.secondaries[node.index].values())
        disk -= sum(one.disk for one in here if not one.local and not one.forthcoming)
        if memory > MISSING_MEMORY or disk > MISSING_DISK:
            warnings.append(
                f"  - node {node.name} is missing {memory:.0f} MB ram and {int(disk // GIB)} GB "
                "disk"
            )
    if warnings:
        say("\n".join(["Warning: cluster has inconsistent data:", *warnings, ""]))
    return state


def group_of(cluster: Cluster, word: str | None) -> Group:
    """Return the group that `word` names, or the only group of the cluster.

    Raises
    ------
    ProgramError
        If there is no such group, or several without `word`.
    """
    names = "\n".join(f"  {group.name}" for group in cluster.groups)
    if word is None:
        used = [group for group in cluster.groups if group.nodes]
        if len(used) == 1:
            return used[0]
        names = "\n".join(f"  {group.name}" for group in used)
        raise ProgramError(f"Found multiple node groups:\n{names}\nError: Aborting.")
    for group in cluster.groups:
        if word in (group.name, group.uuid):
            return group
    raise ProgramError(
        f"Node group {word} not found. Node group list is:\n{names}\nError: Aborting."
    )


def split_instances(cluster: Cluster) -> list[str]:
    """Return the names of the instances with nodes in several groups."""
    nodes = cluster.nodes
    return [
        one.name
        for one in cluster.instances
        if len({nodes[index].group.index for index in one.nodes}) > 1
    ]


def show_lists(
    given: Given, state: State, nodes: str, instances: str = "", group: Group | None = None
) -> None:
    """Print the lists that the options request on stderr.

    `nodes`, `instances`: the titles of the lists. `group`: the only group of which nodes and
    instances are listed; None for all.
    """
    if given.print_instances:
        from iallocator.compat.htools.lists import instance_list

        say(f"\n{instances}:\n{instance_list(state, group)}".rstrip("\n"))
    if given.print_nodes is not None:
        from iallocator.compat.htools.lists import node_list

        say(f"\n{nodes}:\n{node_list(state, given.print_nodes, group)}")


def scores(state: State, nodes: Sequence[int]) -> tuple[float, list[str]]:
    """Return the score of `nodes`, and a line for each of its statistics, with the weight.

    If none of `nodes` is online, the score is 0, and there are no statistics.
    """
    online = any(state.cluster.nodes[index].online for index in nodes)
    terms = terms_of(state, nodes) if online else []
    rows = [("Field", "Value", "Weight")]
    rows += [
        (one.htools, decimal(term / one.weight), f"x{one.weight:.2f}")
        for one, term in zip(STATISTICS, terms)
        if one.htools
    ]
    lines = [f"   {line}" for line in table(rows, (True, False, False))]
    return float(sum(terms)), lines


def cluster_score(state: State, nodes: Sequence[int]) -> float:
    """Return the score of `nodes`; 0 if none of them is online."""
    online = any(state.cluster.nodes[index].online for index in nodes)
    return score_of(state, nodes) if online else 0.0


def save(
    path: str,
    source: Source,
    state: State,
    backwards: bool = True,
    group: Group | None = None,
) -> None:
    """Write the cluster in `state` to the file at `path`.

    `backwards`: whether nodes were read in reverse order. `group`: the only group of which nodes
    and instances are written; None for all.
    """
    write(path, saved_text(source, state, backwards, group))


def saved_text(
    source: Source, state: State, backwards: bool = True, group: Group | None = None
) -> str:
    """Return the cluster in `state` as a text file; the parameters are those of `save`."""
    from iallocator.sources.writer import write_text

    return write_text(
        source.cluster,
        state,
        policy=source.policy,
        masters=source.masters,
        backwards=backwards,
        reported=True,
        group=group,
    )


def write(path: str, text: str) -> None:
    """Write `text` to the file at `path`.

    Raises
    ------
    ProgramError
        If the file cannot be written.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        from iallocator.compat.htools.text_errors import complain_of_file
        from iallocator.compat.releases import followed_release

        raise NamedError(complain_of_file(path, followed_release().writing)) from None
