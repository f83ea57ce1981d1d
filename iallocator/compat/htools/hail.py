"""hail: answer a request of Ganeti."""

from __future__ import annotations

import os
import re
import sys
from functools import partial

from iallocator.commands.states import state_after
from iallocator.compat.htools.backend import load, show_lists, silently, warn, write
from iallocator.compat.htools.errors import NamedError, ProgramError
from iallocator.compat.htools.message_errors import message_problem
from iallocator.compat.htools.request_details import cluster_text, details_of, group_text
from iallocator.compat.htools.text_errors import complain_of_file
from iallocator.compat.htools.utilisation import measure
from iallocator.engine import decide
from iallocator.errors import IallocatorError, say
from iallocator.files import read_file
from iallocator.model.state import LAST_ORDER, State
from iallocator.options.settings import Settings
from iallocator.requests import Allocate
from iallocator.requests.existing import ChangeGroup, NodeEvacuate
from iallocator.sources.lines import default_policy
from iallocator.sources.writer import write_text
from iallocator.wire.codec import decode, encode
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from iallocator.wire.request import read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iallocator.compat.htools.backend import Given
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.policy import Policy
    from iallocator.reply import Reply
    from iallocator.requests.existing import Request

__all__ = ["run"]

MOVED_TEXT = re.compile(r"^([0-9]+ instances failed to move and [0-9]+ were moved successfully).*")
"""A text about several instances; its beginning, in parentheses here, is what hail prints."""

NO_NODES = "Can't find any good node: "
"""The beginning of a failure reason of this program; hail prints no text after the colon."""

UNALLOCABLE = re.compile(r"; warning: the allocation policy of group \S+ is unallocable$")
UNMIRRORED = re.compile(r"(Can't relocate non-mirrored instances): .*")
NO_SECONDARY = re.compile(r"Instances of type (\S+) have no secondary to relocate")


UNKNOWN_GROUP = re.compile(r"^Group (\S+) does not exist$")
DISCONNECTED = re.compile(r"(?:^|(?<=, ))group (\S+)( is not connected [^,]*)")
CHOSEN = re.compile(r"(Selected group: [^,]+, )?(.*)", re.DOTALL)
NEXT_GROUP = re.compile(r", (?=[Gg]roup \S+ )")
"""The separator of the parts of an answer about a new instance; each part is about one group."""


def run(given: Given) -> int:
    """Print the answer to the request in the file of the command line; return the exit status.

    The warnings about the cluster in the message are printed first. If an option names another
    cluster, the request is answered for that cluster, and its warnings follow.

    Raises
    ------
    ProgramError
        If the request or another cluster cannot be read.
    """
    path = _path(given)
    settings = _settings(given)
    try:
        raw = read_file(path)
        if problem := message_problem(raw):
            raise ProgramError(f"Error: {problem}")
        message = silently(lambda: decode(raw))
        message.pop("ipolicy", None)  # hail ignores the policy of the cluster
        cluster = read_cluster(message, Reading.of(settings))
        request = read_request(message, cluster, Reading.of(settings))
    except IallocatorError as error:
        raise ProgramError(f"Error: {error}") from None
    warn(cluster)
    details = details_of(cluster, request, message["request"]) if given.loudness > 1 else ""
    masters: tuple[str, ...] = ()
    policy, raw_cluster = default_policy(), message
    if given.simulate or given.text_data is not None:
        source = load(given, Settings())
        cluster, masters, policy, raw_cluster = source.cluster, source.masters, source.policy, {}
        if not request.new:  # hail crashes if the other cluster lacks an instance of the request
            try:
                request = read_request(message, cluster, Reading.of(settings))
            except IallocatorError as error:
                raise ProgramError(f"Error: {error}") from None
    elif settings.measures and not given.ignore_dynu:
        measure(cluster, settings)
    settings.mond, settings.mond_xen = "", False  # the cluster has its loads
    if details:
        say(f"Received request: {details}")
        if given.loudness > 2:
            first = int(bool(given.simulate))
            data = cluster_text(State(cluster), policy, masters, raw_cluster, first)
            say(f"Received cluster data: {data}")
        chosen = request.group_name if isinstance(request, Allocate) else None
        if request.new and _is_dedicated(cluster, chosen):
            say("Allocation on a dedicated cluster; using lost-allocations metrics.")
    before = State(cluster)
    show_lists(given, before, "Initial cluster status")
    write_to = partial(_save, given, masters, policy)
    write_to(before, "pre-ialloc", "before", None)
    reply = decide(cluster, request, settings)
    _reword(reply, request, cluster, message)
    sys.stdout.buffer.write(encode(reply, extended=False))
    sys.stdout.flush()
    _show_result(given, cluster, request, reply, write_to)
    return 0


def _path(given: Given) -> str:
    """Return the path of the request; ``-`` for standard input.

    Raises
    ------
    ProgramError
        If the command line does not name exactly one file, or the file does not exist.
    """
    if not given.words:
        raise ProgramError("Error: This program needs an input file.")
    if len(given.words) > 1:
        raise ProgramError("Error: Only one argument is accepted (the input file)")
    path: str = given.words[0]
    if path != "-" and (os.path.isdir(path) or not os.path.exists(path)):
        raise NamedError(complain_of_file(path))
    return path


def _is_dedicated(cluster: Cluster, group_name: str | None) -> bool:
    """Return whether all nodes have exclusive storage, in the named group or those open to all."""
    return all(
        node.exclusive_storage
        for node in cluster.nodes
        if group_name == node.group.name
        or (group_name is None and node.group.alloc_policy != "unallocable")
    )


def _show_result(
    given: Given,
    cluster: Cluster,
    request: Request,
    reply: Reply,
    write_to: Callable[[State, str, str, Group | None], None],
) -> None:
    """List and save the state after `reply` if options request it, as hail does."""
    for number, instance in enumerate(request.coming, start=1):
        # A single new instance has the number -1, and is the first one in files; several are last
        instance.order = LAST_ORDER if isinstance(request, Allocate) else -number
    after = state_after(cluster, request, reply.success, reply.result)
    group = _chosen_group(cluster, request, reply)
    show_lists(given, after, "Final cluster status", group=group)
    if group is not None and len(cluster.members(group)) < len(cluster.instances):
        group = None  # hail crashes because the nodes of the other instances are missing
    write_to(after, "post-ialloc", "after", group)


def _chosen_group(cluster: Cluster, request: Request, reply: Reply) -> Group | None:
    """Return the only group in the final data of the cluster; None for all groups.

    If a new instance is placed and its group is named, or the cluster is dedicated, hail leaves out
    the nodes of other groups.
    """
    if not isinstance(request, Allocate) or not reply.success:
        return None
    if request.group_name is None and not _is_dedicated(cluster, None):
        return None
    return next(node.group for node in cluster.nodes if node.name == reply.result[0])


def _save(
    given: Given,
    masters: tuple[str, ...],
    policy: Policy,
    state: State,
    ending: str,
    moment: str,
    group: Group | None,
) -> None:
    """Write `state`, or the part of `group`, to a file if an option requests it."""
    if given.save is not None:
        path = f"{given.save}.{ending}"
        text = write_text(
            state.cluster,
            state,
            policy=policy,
            masters=masters,
            backwards=True,
            reported=True,
            group=group,
        )
        write(path, text)
        say(f"The cluster state {moment} iallocator run has been written to file '{path}'")


def _reword(reply: Reply, request: Request, cluster: Cluster, message: dict[str, Any]) -> None:
    """Replace the texts of `reply` by hail's. `message`: the document with the `request`."""
    reply.info = UNALLOCABLE.sub("", _info(reply.info))
    if request.new:
        chosen = message["request"].get("group_name")
        reply.info = _disconnected(reply.info, cluster, chosen)
    if isinstance(request, NodeEvacuate | ChangeGroup) and reply.success:
        nowhere = ""
        if isinstance(request, ChangeGroup) and not request.target_groups(cluster):
            raw = message["nodegroups"]
            groups = ",".join(group_text(one, raw[one.uuid]["networks"]) for one in cluster.groups)
            nowhere = (
                f"no groups for evacuation: allowed groups was Just [], all groups: [{groups}]"
            )
        for failed in reply.result[1]:
            failed[1] = nowhere or _reason(failed[1])


def _info(info: str) -> str:
    """Return the text of a reply in hail's words: without the reasons that this program adds.

    The groups that lack a network of the instance come first.
    """
    info = MOVED_TEXT.sub(r"\1", UNMIRRORED.sub(r"\1", _reason(info)))
    info = UNKNOWN_GROUP.sub(r"Wrong number of elems found with name \1", info)
    chosen, rest = CHOSEN.fullmatch(info).groups("")  # type: ignore[union-attr]
    parts = NEXT_GROUP.split(rest)
    parts.sort(key=lambda part: not part.startswith("group "))
    return chosen + ", ".join(parts)


def _disconnected(info: str, cluster: Cluster, chosen: str | None) -> str:
    """Return `info`, with hail's words for groups that lack a network and had no alternative.

    `chosen`: the name of the group that the request names. hail uses other words on a dedicated
    cluster.
    """
    if chosen is not None:
        return DISCONNECTED.sub(r"The group \1\2", info)
    if _is_dedicated(cluster, None):
        return DISCONNECTED.sub(r"Group \1: error The group \1\2", info)
    return info


def _reason(text: str) -> str:
    """Return why an instance cannot be moved as hail words it."""
    text = text.replace(f"{NO_NODES}no nodes available", NO_NODES)
    return NO_SECONDARY.sub(
        r"Instances with disk template '\1' can't execute change secondary", text
    )


def _settings(given: Given) -> Settings:
    """Return the settings for the options of the command line."""
    settings = Settings()
    settings.compat = "hail"
    settings.no_config = True
    settings.ignore_soft_errors = bool(given.ignore_soft_errors)
    settings.restrict_allocation_to = given.restrict_allocation_to
    settings.n1 = "off" if given.no_capacity_checks else "strict"
    settings.mond = "" if given.mond is None else "yes" if given.mond else "no"
    settings.mond_xen = bool(given.mond_xen)
    if given.static_kvm_node_memory is not None:
        settings.static_kvm_node_memory = given.static_kvm_node_memory
    return settings
