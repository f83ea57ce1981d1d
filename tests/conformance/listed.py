"""Recognise differences from htools that the manual lists (`docs/reference/htools.md`).

A difference that is not recognised is an error of this program until it is explained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .command_lines import Case

if TYPE_CHECKING:
    from .htools import Ran

    Original = Callable[[Case], Ran]

__all__ = ["LISTED", "Listed", "reason"]


class Listed(NamedTuple):
    """A difference that the manual lists.

    Attributes
    ----------
    programs:
        The programs that can have the difference.
    reason:
        The cause of the difference.
    explains:
        Called with a case, the result of htools, this program's result, and a function that runs
        htools for another case. Returns whether the cause explains the difference.
    """

    programs: tuple[str, ...]
    reason: str
    explains: Callable[[Case, Ran, Ran, Original], bool]


def reason(one: Case, peer: Ran, own: Ran, original: Original) -> str:
    """Return why the results of `one` differ if the manual lists the cause; "" if it does not.

    `original`: runs the program of htools for a case.
    """
    for listed in LISTED:
        if one.program in listed.programs and listed.explains(one, peer, own, original):
            return listed.reason
    return ""


NOT_LOADED = "failed to load data"


def _rejects_value(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only this program rejects a value of the message or of an answer of RAPI."""
    rejected = re.search(r"(^Error: |: )[\w/ .-]+: expected .*, got ", own.out + own.err, re.M)
    accepted = not peer.status or (NOT_LOADED in own.err and NOT_LOADED not in peer.err)
    accepted |= "inconsistent data" in peer.err and "inconsistent data" not in own.err
    return accepted and bool(own.status) and rejected is not None


def _crashes(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether htools crashes for a missing instance or node."""
    return "hail: IntMap.!: key" in peer.err and "CallStack" in peer.err


def _has_no_score(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether a node without cpus, or without exclusive spindles, has no score."""
    if peer.status or own.status or not own.out.startswith("{") or "-t" in one.arguments:
        return False
    nodes = json.loads(one.files["request.json"])["nodes"].values()
    return any(
        not node["total_cpus"]
        or (node["ndparams"]["exclusive_storage"] and not node["total_spindles"])
        for node in nodes
        if "total_cpus" in node
    )


def _prints_no_score(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only scores differ, and those of htools are NaN."""
    form = r"(?<=score: )(NaN|\d+\.\d{8})"
    return (
        "score: NaN" in peer.out
        and re.sub(form, "", peer.out) == re.sub(form, "", own.out)
        and (peer.status, peer.err, peer.written) == (own.status, own.err, own.written)
    )


def _rows(one: Case, part: int) -> list[list[str]]:
    """Return the fields of the lines in a part of the text file: 1: nodes, 2: instances."""
    sections: list[list[list[str]]] = [[]]
    for line in one.files["cluster.data"].splitlines():
        if line:
            sections[-1].append(line.split("|"))
        else:  # every blank line ends a section
            sections.append([])
    return sections[part]


def _crosses_groups(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether htools moves an instance to another group."""
    groups = {row[0]: row[8] for row in _rows(one, 1)}
    words = (word for word in one.arguments if word not in ("-X", "--exec"))  # it would end early
    saved = original(one._replace(arguments=(*words, "-Splan"))).written
    after = Case(one.program, (), {"cluster.data": saved["plan.squeezed"]})
    nodes = {row[0]: {name for name in row[6:8] if name} for row in _rows(one, 2)}
    return any(
        len({groups[name] for name in nodes[row[0]] | {name for name in row[6:8] if name}}) > 1
        for row in _rows(after, 2)
    )


def _keeps_a_node(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether htools powers all nodes down because the data name no master node."""
    online = {row[0] for row in _rows(one, 1) if row[7] == "N" and "?" not in row}
    without = set(peer.out.splitlines()) & online
    return without == online and len(without) == len(set(own.out.splitlines()) & online) + 1


STANDARD = "|128,1,1024,1,1,1|||4.0|"
"""The policy of a text file without policies; fields that are not used here are empty."""


def _counts_offline_nodes(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether a node that is offline, or will be, lacks the resources of the options.

    hsqueeze checks these nodes, too. Nodes with unknown amounts have no resources.
    """
    needed = 2.0
    for word, value in zip(one.arguments, (*one.arguments[1:], "")):
        if re.match("--(min|tar)", word):
            needed = max(needed, float(value if "=" not in word else word.split("=")[1]))
    groups = {row[1]: row[0] for row in _rows(one, 0)}
    lines = [line for line in one.files["cluster.data"].splitlines() if line.count("|") == 5]
    policies = {line.split("|")[0]: line.split("|") for line in [STANDARD, *lines]}
    memory, cpus, *_ = (int(text) * needed for text in policies[""][1].split(","))
    leaving = set(own.out.splitlines())
    for row in _rows(one, 1):
        used = sum(int(held[3]) for held in _rows(one, 2) if held[6] == row[0])
        if "?" in row[1:7]:
            return True
        if row[7] == "Y" or row[0] in leaving:
            here = [held for held in _rows(one, 2) if held[6] == row[0] and row[7] == "Y"]
            stopped = sum(int(held[1]) for held in here if held[4] != "running")
            free = int(row[3]) - stopped if row[7] == "Y" else int(row[1]) - int(row[2])
            ratio = float(policies.get(groups[row[8]], policies[""])[4])
            if free <= memory or int(row[6]) * ratio < 1 + cpus + used * (row[7] == "Y"):
                return True
    return False


def _fails_over_to_drained(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only instances with a drained secondary move otherwise.

    All nodes that are not printed in a group are drained: those that are offline, or not rebooted.
    """
    if "--full-evacuation" not in one.arguments or "cluster.data" not in one.files:
        return False
    theirs, ours = (ran.out.splitlines() for ran in (peer, own))
    printed = {name for line in theirs if line[:1] != " " for name in line.split(",")}
    differ = [(a.split(), b.split()) for a, b in zip(theirs, ours) if a != b]
    drained = {row[0] for row in _rows(one, 1) if row[0] not in printed or row[7] == "Y"}
    nodes = {row[0]: row[6:8] for row in _rows(one, 2)}
    return len(theirs) == len(ours) and all(
        a[:1] == b[:1] and a[0] in nodes and not drained.isdisjoint(nodes[a[0]]) for a, b in differ
    )


def _gaining(lines: list[str]) -> list[str]:
    """Return the output of hbal without moves that leave the score as it is, to the last digit."""
    kept, last = [], ""
    for line in lines:
        found = re.match(r" +\d+\. .* (\d+\.\d{8}) a=", line)
        if not found or found[1] != last:
            kept.append(re.sub(r"(?<=Solution length=)\d+", "", line))
        last = found[1] if found else last
    return kept


def _gains_nothing(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only hbal has moves that leave the score as it is, to the last digit."""
    ours = [re.sub(r"(?<=Solution length=)\d+", "", line) for line in own.out.splitlines()]
    same = _gaining(peer.out.splitlines()) == ours
    return peer.out != own.out and same and (peer.status, peer.err) == (own.status, own.err)


def _balances_for_nothing(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only hsqueeze has further moves, and balancing moves for nothing.

    Balancing is that of hbal without the nodes that are powered down.
    """
    if "cluster.data" not in one.files or (peer.status, peer.err) != (own.status, own.err):
        return False
    theirs, ours = (
        [line for text in (ran.out, *ran.written.values()) for line in text.splitlines()]
        for ran in (peer, own)
    )
    rest = iter(theirs)
    if not all(line in rest for line in ours if "gnt-" in line):
        return False
    off = [f"-O{name}" for name in ours if name in {row[0] for row in _rows(one, 1)}]
    balanced = original(Case("hbal", ("-tcluster.data", *off), one.files)).out.splitlines()
    return len(_gaining(balanced)) < len(balanced)


def _compares_other_memory(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only marks of N+1 differ, on nodes with less memory than they report."""
    if peer.status or own.status or peer.out != own.out:
        return False
    theirs, ours = (ran.err.splitlines() for ran in (peer, own))
    titles: list[str] = []
    for a, b in zip(theirs, ours):
        if "f_mem" in a:
            titles = a.split()[1:]
        if a != b:
            amounts = dict(zip(titles, a[3:].split()))
            free, used, reserved = (int(amounts.get(k, 0)) for k in ("f_mem", "u_mem", "r_mem"))
            if a[1] != " " or b[1] != "*" or a[2:] != b[2:] or not used <= reserved <= free:
                return False
    return len(theirs) == len(ours)


def _starts_otherwise(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether a node passes N+1 at the start only by the memory that it reports."""
    if peer.status < 0:
        return False
    words = [word for word in one.arguments if not word.startswith("-p")]
    shown = original(one._replace(arguments=(*words, "-pfmem,umem,rmem"))).err.splitlines()
    rows = [line.split() for line in shown]
    amounts = [[int(word) for word in row] for row in rows if len(row) == 3 and row[0].isdigit()]
    return any(used <= reserved <= free for free, used, reserved in amounts)


def _rounds_otherwise(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether only the last digit of a score differs, by one."""
    form = r"(?<=score: )\d+\.\d{8}"
    theirs, ours = (re.findall(form, ran.out) for ran in (peer, own))
    digits = zip(theirs, ours)
    return (
        re.sub(form, "", peer.out) == re.sub(form, "", own.out)
        and (peer.status, peer.err) == (own.status, own.err)
        and all(abs(int(a.replace(".", "")) - int(b.replace(".", ""))) <= 1 for a, b in digits)
    )


def _uses_no_spindles(one: Case, peer: Ran, own: Ran, original: Original) -> bool:
    """Return whether an instance on external storage is on a node with exclusive storage."""
    if not any("cluster.data" in word for word in one.arguments):
        return False
    exclusive = {row[0] for row in _rows(one, 1) if row[11:12] == ["Y"]}
    external = ("rbd", "ext", "gluster", "sharedfile", "blockdev")
    rows = (row for row in _rows(one, 2) if len(row) > 8)
    return any(row[6] in exclusive and row[8] in external for row in rows)


READERS = ("hail", "hbal", "hcheck", "hinfo", "hroller", "hscan", "hspace")
"""The programs that read a message, or answers of RAPI."""

LISTED = (
    Listed(READERS, "a value that cannot be right is rejected", _rejects_value),
    Listed(("hail",), "hail crashes", _crashes),
    Listed(("hail",), "a score of hail is NaN", _has_no_score),
    Listed(("hail",), "less memory than the node reports", _compares_other_memory),
    Listed(("hspace", "hcheck"), "a score is NaN", _prints_no_score),
    Listed(("hail", "hbal", "hspace"), "N+1 by the reported memory", _starts_otherwise),
    Listed(("hail", "hbal", "hcheck", "hinfo", "hspace"), "the last digit", _rounds_otherwise),
    Listed(("hbal",), "a move gains less than rounding", _gains_nothing),
    Listed(("hsqueeze",), "a move gains less than rounding", _balances_for_nothing),
    Listed(("hbal", "hcheck", "hsqueeze"), "external storage uses no spindles", _uses_no_spindles),
    Listed(("hroller",), "an instance fails over to a drained node", _fails_over_to_drained),
    Listed(("hsqueeze",), "hsqueeze powers the last node down", _keeps_a_node),
    Listed(("hsqueeze",), "hsqueeze checks offline nodes, too", _counts_offline_nodes),
    Listed(("hsqueeze",), "hsqueeze moves instances between groups", _crosses_groups),
)
"""The differences, each with a test that recognises it."""
