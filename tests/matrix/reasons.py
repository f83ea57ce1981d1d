"""List the combinations of the matrix that are impossible, with the reasons.

A rule applies to every feature and path that it names; the first one that applies is the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from textwrap import wrap

from .features import FEATURES
from .paths import PATHS, STRATEGIES
from .worlds import DRBD, SHARED

__all__ = ["RULES", "reason", "table"]


def _paths(*starts: str) -> frozenset[str]:
    """Return the names of the paths with these names, under every strategy."""
    return frozenset(name for name in PATHS if name.partition(",")[0] in starts)


EVERYWHERE = frozenset(PATHS)
SECONDARIES = frozenset(name for name, path in PATHS.items() if path.kinds == (DRBD,))
SHARED_ONLY = frozenset(name for name, path in PATHS.items() if path.kinds == (SHARED,))
WITHIN = frozenset(name for name, path in PATHS.items() if not path.between)
ALONE = frozenset(name for name, path in PATHS.items() if not path.batch)
WITHOUT_N1 = frozenset(name for name, path in PATHS.items() if not path.checks_n1)
RANKED = frozenset(name for name in PATHS if "," in name and not name.endswith("--group"))
BY_PACEMAKER = frozenset({name for name in RANKED if "pacemaker" in name} | _paths("place"))
DOORS = _paths("ask", "snapshot", "--log and --capture", "configuration file")
NEW = DOORS | _paths("allocate", "multi-allocate", "--optimal", "--top", "exact search")
SIZES = _paths("capacity", "capacity --replay")
FAILURES = _paths("check --failures", "check --racks")
SHOWN = frozenset(name for name, path in PATHS.items() if path.shown)
MOVES = _paths(
    "relocate", "evacuate primary-only", "evacuate secondary-only", "evacuate all",
    "change-group", "multi-evacuate", "exact search of moves",
)  # fmt: skip
SQUEEZE = _paths("squeeze down", "squeeze up", "squeeze exact")
BETWEEN = _paths("redistribute", "compress", "balance-groups")
BALANCE = _paths("balance", "swap", "--cost")
PLANNERS = frozenset({*SQUEEZE, *BETWEEN, *BALANCE, *_paths("place", "detours")})
FORCED = frozenset(name for name, path in PATHS.items() if path.forced)

NODE_N1 = ("N+1 no-new", "N+1 no-worse", "N+1 off", "N+1 strict", "group setting: n1")
OF_TAGS = (
    "pools", "exclusion tags", "migration tags", "location tags", "together", "apart (node)",
    "apart (domain)", "should with a price", "hard location score",
)  # fmt: skip

BOUND = (
    "together", "apart (node)", "apart (domain)", "hard location score", "hard node score",
)  # fmt: skip

NODE_TAGS = (
    "maintenance tag", "pools", "location tags", "migration tags", "apart (domain)",
    "hard node score",
)  # fmt: skip
PAGE_WITHOUT = (
    "networks", "exclusion tags", "apart (node)", "should with a price", "hard location score",
)  # fmt: skip

Rule = tuple[Collection[str], Collection[str], str]

RULES: list[Rule] = [
    (
        ("soft location score", "utilization"),
        EVERYWHERE - BY_PACEMAKER,
        "Pacemaker's strategies rank by it, and none of the others",
    ),
    (
        (
            "cpu ratio",
            "exclusion tags",
            "together",
            "together, as one",
            "apart (node)",
            "apart (domain)",
            "should with a price",
            "hard location score",
            "hard node score",
            "migration tags",
            "group setting: soft errors",
            "keep-running",
        ),
        SECONDARIES,
        "it concerns where an instance runs: a secondary runs nothing",
    ),
    (
        ("spindle ratio", "exclusive storage"),
        SHARED_ONLY,
        "an instance on shared storage has no spindles of a node",
    ),
    (
        ("policy", "networks", "unallocable group", "setting of another group: soft errors"),
        WITHIN,
        "a property of the group, and the path does not leave it",
    ),
    (
        ("priority", "order", "order after what fails", "together, as one"),
        ALONE,
        "it decides between instances of one request or plan, here is one",
    ),
    (
        ("restricted nodes",),
        EVERYWHERE - NEW,
        "only a request for a new instance names nodes",
    ),
    (("migration tags",), NEW | SIZES, "a new instance comes from nowhere"),
    (("together",), _paths("undo"), "the constraint is violated before the way back, and after"),
    (
        tuple(name for name in NODE_N1 if name != "N+1 no-worse"),
        WITHOUT_N1 & MOVES,
        "somebody asked for the move: as with hail, N+1 of the single node is all that counts",
    ),
    (
        ("N+1 no-worse",),
        _paths("exact search of moves"),
        "there is one way to place both, and who leaves a node has to go somewhere",
    ),
    (NODE_N1, _paths("repair of secondaries"), "an instance without a secondary must get one"),
    (
        ("pools", "migration tags", "not running"),
        _paths("repair anew"),
        "what has its disks on one node has no pool, comes from nowhere, and is started if it ran",
    ),
    (
        (*NODE_N1, "unallocable group"),
        _paths("detours"),
        "nothing stays there",
    ),
    (("group setting: strategy",), RANKED, "the command line wins over the tags of a group"),
    (
        ("group setting: strategy",),
        {*BALANCE, *SQUEEZE, *_paths("capacity", "--optimal", "live execution")},
        "it lowers the score of the cluster, whatever ranks single requests",
    ),
    (("group setting: strategy",), _paths("place"), "the command line names the strategy"),
    (
        ("group setting: strategy", "location tags", "should with a price"),
        FORCED - _paths("redistribute", "place"),
        "it ranks, and refuses nothing; there is one place only",
    ),
    (
        ("group setting: strategy", "location tags"),
        _paths("redistribute"),
        "it ranks; `next` is in a group of last resort",
    ),
    (
        ("group setting: strategy", "location tags", "should with a price"),
        _paths("--top", "detours"),
        "it ranks, and refuses nothing",
    ),
    (
        ("location tags",),
        RANKED | _paths("place"),
        "wishes for locations are a statistic of the score, by which this strategy does not rank",
    ),
    (
        (*OF_TAGS, "networks"),
        _paths("capacity"),
        "what only has a size has no tags and no networks",
    ),
    (
        ("exclusive storage",),
        _paths("ask", "snapshot"),
        "words of a question name no spindles of disks",
    ),
    (
        ("restricted nodes",),
        _paths("snapshot"),
        "an option of the answer; what is written down is the cluster and the question",
    ),
    (
        ("maintenance tag", "cpu ratio", "exclusion tags", "group setting: soft errors", *BOUND),
        FAILURES,
        "who would be rescued is asked by hard limits alone, as in global N+1",
    ),
    (
        NODE_N1,
        FAILURES,
        "they say which failures are minded; `check` tells all",
    ),
    (
        ("auto_balance off", "admin_state offline"),
        FAILURES,
        "the failure that the room on `best` is kept for is another one",
    ),
    (("not running",), FAILURES, "who is rescued is counted, not how"),
    (
        BOUND,
        _paths("capacity --replay"),
        "the past tells sizes: a copy is bound to nobody",
    ),
    (
        (
            "N+1 strict",
            "N+1 no-new",
            "N+1 no-worse",
            "N+1 off",
            "group setting: n1",
            "group setting: soft errors",
        ),
        _paths("capacity --replay"),
        "there is one place only, and nobody could take what is there",
    ),
    (
        (
            "location tags",
            "should with a price",
            "group setting: strategy",
            "group setting: soft errors",
            "admin_state offline",  # frees memory elsewhere, too
        ),
        _paths("make-room"),
        "the fewest moves and the least traffic decide; nothing is ranked",
    ),
    (
        NODE_TAGS,
        SHOWN,
        "constraints by node tags are listed by `constraints`",
    ),
    (
        ("policy",),
        SHOWN,
        "pictures and tables show existing instances; `capacity` counts new ones",
    ),
    (
        ("N+1 no-new", "N+1 no-worse", "N+1 off", "N+1 strict"),
        _paths("show"),
        "an option of those that decide; `config` shows it",
    ),
    (
        ("N+1 strict", "group setting: n1"),
        _paths("report and --html"),
        "every failure is drawn, whichever are minded",
    ),
    (
        (
            *PAGE_WITHOUT,
            "group setting: soft errors",
            "setting of another group: soft errors",
            "group setting: strategy",
        ),
        _paths("report and --html"),
        "the page draws amounts and failures; `constraints` lists effects of tags",
    ),
    (("not running",), SECONDARIES, "a secondary is replaced whether its primary runs or not"),
    (("not running",), _paths("relocate"), "the answer is a node; Ganeti chooses the step"),
    (("not running",), _paths("redistribute"), "its node is offline, so that it fails over anyway"),
    (("not running",), NEW | SIZES, "a new instance is to run"),
    (
        ("order after what fails",),
        MOVES,
        "what finds no other place runs where it is, and nothing has to wait",
    ),
    (
        ("order",),
        NEW,
        "new instances are created, not moved: what must come first is `order after what fails`",
    ),
    (
        ("keep-running",),
        EVERYWHERE - _paths("place", "detours"),
        "nothing is stopped to make room for something else",
    ),
    (("order",), SECONDARIES, "a secondary is replaced while its primary runs"),
    (
        ("group setting: soft errors",),
        _paths("detours"),
        "where the way ends the same is broken",
    ),
    (
        ("N+1 strict",),
        _paths("place"),
        "`doomed` is lost by what cannot move: nobody is stopped for that",
    ),
    (
        ("N+1 strict",),
        frozenset({"ask, --group"}),
        "the failure is in another group, and a request for one group checks only this one",
    ),
    (("N+1 strict",), _paths("squeeze exact"), "what moves there passes no N+1 at all"),
    (
        ("N+1 no-new", "N+1 no-worse", "N+1 off", "group setting: n1"),
        _paths("swap"),
        "two of equal memory change places: no failure minds",
    ),
    (
        ("N+1 no-new", "N+1 no-worse", "N+1 off", "group setting: n1"),
        _paths("squeeze up"),
        "whose failure only `best` could mend is lost while that is off",
    ),
    (
        ("N+1 strict",),
        _paths("redistribute"),
        "a group with a node that is not safe is unhealthy, and no target, in every mode",
    ),
    (
        ("group setting: soft errors",),
        BALANCE | _paths("live execution"),
        "the score counts what exclude each other: nothing is won by one more",
    ),
    (("together",), _paths("reboot"), "who breaks a must at home could not come back"),
    (("N+1 strict",), _paths("reboot with drbd"), "`doomed` is the best secondary"),
    (("not running",), _paths("reboot"), "what does not run need not leave"),
    (("offline",), _paths("squeeze up"), "what is powered on is offline before"),
    (("apart (domain)",), _paths("detours"), "the way ends in the rack that is forbidden"),
    (("together",), _paths("detours"), "both are together in the end, and on the way neither is"),
    (
        ("auto_balance off", "admin_state offline"),
        SQUEEZE | _paths("swap", "place", "detours"),
        "the world has no room for what is held on `best`",
    ),
]
"""Features, paths, and why none of them makes a cell."""


def reason(feature: str, path: str) -> str:
    """Return why the two cannot be combined; "" if they can."""
    return next((words for one, other, words in RULES if feature in one and path in other), "")


def table() -> Iterator[str]:
    """Return the matrix as text: each feature, its paths, and the reasons for the missing ones."""
    for feature, row in FEATURES.items():
        yield feature
        yield from _wrapped(str(row.build.__doc__))
        yield from _wrapped("tested: " + _listed([p for p in PATHS if not reason(feature, p)]))
        why: dict[str, list[str]] = {}
        for path in PATHS:
            if words := reason(feature, path):
                why.setdefault(words, []).append(path)
        for words, paths in why.items():
            yield from _wrapped(f"not {_listed(paths)}: {words}")


def _listed(paths: Collection[str]) -> str:
    """Return names of paths; a request under every strategy is listed once."""
    plain = [p for p in paths if "," not in p]
    whole = {p for p in plain if {f"{p}, {s}" for s in STRATEGIES} <= set(paths)}
    ranked = {p for p in paths if "," in p and p.partition(",")[0] in whole}
    return "; ".join(f"{p} (*)" if p in whole else p for p in paths if p not in ranked)


def _wrapped(text: str) -> list[str]:
    """Return lines that fit 100 columns."""
    return wrap(text, 100, initial_indent="    ", subsequent_indent="        ",
                break_on_hyphens=False)  # fmt: skip
