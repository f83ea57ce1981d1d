"""List the combinations of the matrix that are impossible, with the reasons.

A rule applies to every feature and path that it names; the first one that applies is the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from textwrap import wrap

from .features import FEATURES
from .paths import PATHS, STRATEGIES
from .scenarios import DRBD, SHARED

__all__ = ["RULES", "reason", "table"]


def _paths(*starts: str) -> frozenset[str]:
    """Return the names of the paths that begin with `starts`, under every strategy."""
    return frozenset(name for name in PATHS if name.partition(",")[0] in starts)


EVERYWHERE = frozenset(PATHS)
SECONDARIES = frozenset(name for name, path in PATHS.items() if path.kinds == (DRBD,))
SHARED_ONLY = frozenset(name for name, path in PATHS.items() if path.kinds == (SHARED,))
WITHIN = frozenset(name for name, path in PATHS.items() if not path.between)
ALONE = frozenset(name for name, path in PATHS.items() if not path.batch)
WITHOUT_N1 = frozenset(name for name, path in PATHS.items() if not path.checks_n1)
RANKED = frozenset(name for name in PATHS if "," in name and not name.endswith("--group"))
PLACE = _paths("place", "place --optimal")
BY_PACEMAKER = frozenset({name for name in RANKED if "pacemaker" in name} | PLACE)
ENTRY_POINTS = _paths("ask", "snapshot", "--log and --capture", "configuration file")
NEW = ENTRY_POINTS | _paths("allocate", "multi-allocate", "--optimal", "--top", "exact search")
OF_POLICY = _paths("capacity", "capacity --optimal", "capacity --add-nodes", "capacity --forecast")
SIZES = OF_POLICY | _paths("capacity --replay")
FAILURES = _paths("check --failures", "check --racks")
SHOWN = frozenset(name for name, path in PATHS.items() if path.shown)
MOVES = _paths(
    "relocate", "evacuate primary-only", "evacuate secondary-only", "evacuate all",
    "change-group", "multi-evacuate", "exact search of moves",
)  # fmt: skip
SQUEEZE = _paths("squeeze down", "squeeze up", "squeeze exact", "squeeze --optimal")
REDISTRIBUTE = _paths("redistribute", "redistribute --optimal")
BETWEEN = REDISTRIBUTE | _paths("compress", "compress --optimal", "balance-groups")
BALANCE = _paths("balance", "swap", "--cost")
STEADY = _paths("balance --steady")
PLANNERS = frozenset({*STEADY, *SQUEEZE, *BETWEEN, *BALANCE, *PLACE, *_paths("detours")})
FORCED = frozenset(name for name, path in PATHS.items() if path.forced)

NODE_N1 = ("N+1 no-new", "N+1 no-worse", "N+1 off", "N+1 strict", "group setting: n1")
OF_TAGS = (
    "pools", "exclusion tags", "migration tags", "location tags", "together", "apart (node)",
    "apart (domain)", "apart (group)", "should with a penalty", "preferred label",
    "hard location score",
    "required label",
    "excluded label", "required location score", "soft location score",
)  # fmt: skip

BOUND = (
    "together", "apart (node)", "apart (domain)", "apart (group)", "hard location score",
    "hard node score", "required location score",
)  # fmt: skip

NODE_TAGS = (
    "maintenance tag", "pools", "location tags", "migration tags", "apart (domain)",
    "hard node score", "required label", "excluded label", "preferred label",
)  # fmt: skip
PAGE_WITHOUT = (
    "networks", "exclusion tags", "apart (node)", "apart (group)", "should with a penalty",
    "hard location score", "required location score", "soft location score", "infinite stickiness",
)  # fmt: skip

Rule = tuple[Collection[str], Collection[str], str]

RULES: list[Rule] = [
    (
        ("utilization",),
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
            "apart (group)",
            "should with a penalty",
            "soft location score",
            "preferred label",
            "hard location score",
            "required location score",
            "hard node score",
            "migration tags",
            "group setting: soft errors",
            "group setting: memory ratio",
            "keep-running",
        ),
        SECONDARIES,
        "it concerns where an instance runs: a secondary runs nothing",
    ),
    (
        ("infinite stickiness",),
        EVERYWHERE - PLANNERS - SHOWN | REDISTRIBUTE | PLACE | _paths("detours"),
        "the instance must move, or has no present node; `place` has Pacemaker's stickiness",
    ),
    (
        ("spindle ratio", "exclusive storage", "disk reserve", "volume groups"),
        SHARED_ONLY,
        "an instance on shared storage has no disk and no spindles of a node",
    ),
    (
        (
            "policy",
            "networks",
            "unallocable group",
            "setting of another group: soft errors",
            "apart (group)",
        ),
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
    (("together",), STEADY, "it repairs no violated constraint"),
    (
        ("soft location score",),
        STEADY,
        "finite scores have another unit than its gain, and have no effect",
    ),
    (
        ("location tags", "preferred label"),
        STEADY,
        "`source` violates it as well as `best`, and a move must violate no more",
    ),
    (
        ("N+1 strict",),
        STEADY,
        "it moves nothing while the failure of some node is not tolerated, in every mode",
    ),
    (("together",), _paths("undo"), "the constraint is violated before the way back, and after"),
    (
        ("together",),
        _paths("swap", "squeeze up", "squeeze exact", "squeeze --optimal"),
        "no moves satisfy the constraint, and a violated one does not keep an instance on its node",
    ),
    (
        tuple(name for name in NODE_N1 if name != "N+1 no-worse"),
        WITHOUT_N1 & MOVES,
        "the move is required: as with hail, only N+1 of the single node is checked",
    ),
    (
        ("N+1 no-worse",),
        _paths("exact search of moves"),
        "both have one placement, and an evacuated instance must be placed",
    ),
    (
        NODE_N1,
        _paths("repair of secondaries", "rescue of secondaries"),
        "an instance without a secondary must get one",
    ),
    (
        ("N+1 no-new", "N+1 off", "N+1 strict"),
        _paths("rescue"),
        "an instance of a dead node must be placed: only no-worse prefers nodes",
    ),
    (
        ("group setting: soft errors",),
        _paths("rescue"),
        "instances of a dead node exceed soft limits anyway",
    ),
    (("not running",), _paths("rescue"), "every instance of a dead node fails over"),
    (
        ("pools", "migration tags", "not running"),
        _paths("repair anew"),
        "a plain instance has no pool and is recreated, so that it does not migrate",
    ),
    (
        (*NODE_N1, "unallocable group"),
        _paths("detours"),
        "no instance stays on the node of a temporary move",
    ),
    (("group setting: strategy",), RANKED, "the command line overrides tags of a group"),
    (
        ("group setting: strategy",),
        {*BALANCE, *STEADY, *SQUEEZE, *OF_POLICY, *_paths("--optimal", "live execution")},
        "it lowers the score of the cluster, whatever ranks single requests",
    ),
    (("group setting: strategy",), PLACE, "the command line names the strategy"),
    (
        ("group setting: memory ratio",),
        frozenset(name for name in PATHS if name.endswith(", affinity")),
        "the strategy keeps more memory free than the ratio adds on `best`",
    ),
    (
        ("group setting: memory ratio",),
        BALANCE | _paths("live execution"),
        "the score spreads free memory, so a move that fills `best` gains nothing",
    ),
    (
        ("group setting: memory ratio",),
        PLACE,
        "the strategy prefers free memory, which `source` has",
    ),
    (
        ("group setting: memory ratio",),
        _paths("squeeze up"),
        "no node is short of memory with the ratio, so `best` stays off",
    ),
    (
        (
            "group setting: strategy",
            "location tags",
            "should with a penalty",
            "soft location score",
            "preferred label",
        ),
        FORCED - REDISTRIBUTE - PLACE,
        "it ranks nodes and rejects none, and only one node is possible",
    ),
    (
        ("group setting: strategy", "location tags", "soft location score"),
        REDISTRIBUTE,
        "it ranks; `next` is in a group of last resort",
    ),
    (
        (
            "group setting: strategy",
            "location tags",
            "should with a penalty",
            "soft location score",
            "preferred label",
        ),
        _paths("--top", "detours"),
        "it ranks nodes and rejects none",
    ),
    (
        ("location tags",),
        RANKED | PLACE,
        "desired locations are a statistic of the score, which this strategy ignores",
    ),
    (
        (*OF_TAGS, "networks"),
        OF_POLICY,
        "a size has no tags and no networks",
    ),
    (
        ("exclusive storage",),
        _paths("capacity --add-nodes"),
        "the spindles of the new node change the scores, so that another node is best",
    ),
    (
        ("exclusive storage",),
        _paths("ask", "snapshot"),
        "words of a question name no spindles of disks",
    ),
    (
        ("restricted nodes",),
        _paths("snapshot"),
        "an option of the answer, but a snapshot has only the cluster and the request",
    ),
    (
        ("maintenance tag", "cpu ratio", "exclusion tags", "group setting: soft errors", *BOUND),
        FAILURES,
        "restarts are checked by hard limits only, as in global N+1",
    ),
    (
        NODE_N1,
        FAILURES,
        "they select the failures to check, but `check` reports all",
    ),
    (
        ("auto_balance off", "admin_state offline"),
        FAILURES,
        "`best` reserves its memory for another failure",
    ),
    (
        ("disk reserve",),
        _paths("repair of secondaries", "rescue of secondaries", "undo"),
        "the instance leaves a node that is not online, or returns: soft limits do not apply",
    ),
    (
        ("volume groups",),
        _paths("live execution"),
        "a running cluster reports volume groups only with `--volume-groups`",
    ),
    (
        ("volume groups",),
        OF_POLICY | _paths("ask", "snapshot"),
        "neither a size nor the words of a question name the volume group of a disk",
    ),
    (
        ("volume groups",),
        _paths("show"),
        "a limit that `show` does not list",
    ),
    (
        ("disk reserve",),
        _paths("show"),
        "a limit that `show` does not list; `check` and `report` do",
    ),
    (("not running",), FAILURES, "restarted instances are counted, not how they restart"),
    (
        BOUND,
        _paths("capacity --replay"),
        "only sizes are replayed: a copy has no constraints with others",
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
        "only one node is possible, and no node could restart its instances",
    ),
    (
        (
            "location tags",
            "should with a penalty",
            "soft location score",
            "preferred label",
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
        "every failure is drawn, whatever the mode",
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
    (("not running",), REDISTRIBUTE, "its node is offline, so that it fails over anyway"),
    (("not running",), NEW | SIZES, "a new instance is to run"),
    (
        ("order after what fails",),
        MOVES,
        "an instance without a new node stays and runs, so that no other one waits",
    ),
    (
        ("order",),
        NEW,
        "new instances are created, not moved: what must come first is `order after what fails`",
    ),
    (
        ("keep-running",),
        EVERYWHERE - PLACE - _paths("detours"),
        "no instance is stopped to free capacity",
    ),
    (("order",), SECONDARIES, "a secondary is replaced while its primary runs"),
    (
        ("group setting: soft errors",),
        _paths("detours"),
        "the final node violates the soft limit anyway",
    ),
    (
        ("N+1 strict",),
        PLACE,
        "`doomed` is lost because of an instance that cannot move, which stops no other",
    ),
    (
        ("N+1 strict",),
        frozenset({"ask, --group"}),
        "the failure is in another group, and a request for one group checks only this one",
    ),
    (
        ("N+1 strict",),
        _paths("squeeze exact", "squeeze --optimal"),
        "moves to that node pass N+1 in no mode",
    ),
    (
        ("N+1 no-new", "N+1 no-worse", "N+1 off", "group setting: n1"),
        _paths("swap"),
        "two instances of equal memory are swapped, which changes no failure",
    ),
    (
        ("N+1 no-new", "N+1 no-worse", "N+1 off", "group setting: n1"),
        _paths("squeeze up"),
        "a failure that needs `best` is lost while `best` is off",
    ),
    (
        ("N+1 strict",),
        REDISTRIBUTE,
        "a group with a node that is not safe is unhealthy, and no target, in every mode",
    ),
    (
        ("group setting: soft errors",),
        BALANCE | _paths("live execution"),
        "the score counts conflicts, so a move that adds one gains nothing",
    ),
    (
        ("together", "required location score"),
        _paths("reboot"),
        "a move back to a violated hard constraint is impossible",
    ),
    (
        ("N+1 strict",),
        _paths("reboot with drbd", "maintain with drbd"),
        "`doomed` is the best secondary",
    ),
    (("not running",), _paths("reboot", "maintain"), "a stopped instance need not leave the node"),
    (("offline",), _paths("squeeze up"), "a node that is powered on is offline before"),
    (("apart (domain)",), _paths("detours"), "the temporary move ends in the forbidden rack"),
    (
        ("together",),
        _paths("detours"),
        "both share a node at the end, but not during the temporary move",
    ),
    (
        ("auto_balance off", "admin_state offline"),
        SQUEEZE | PLACE | _paths("swap", "detours"),
        "the cluster has no capacity for a reserve on `best`",
    ),
]
"""Rules: features, paths, and why no case combines them."""


def reason(feature: str, path: str) -> str:
    """Return why a feature and a path cannot be combined; "" if they can."""
    return next((words for one, other, words in RULES if feature in one and path in other), "")


def table() -> Iterator[str]:
    """Yield the lines of the matrix: each feature, its paths, and reasons for missing ones."""
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
    """Return the names of paths in one text.

    A request of which the paths under every strategy are included is listed once, with ``(*)``.
    """
    plain = [p for p in paths if "," not in p]
    whole = {p for p in plain if {f"{p}, {s}" for s in STRATEGIES} <= set(paths)}
    ranked = {p for p in paths if "," in p and p.partition(",")[0] in whole}
    return "; ".join(f"{p} (*)" if p in whole else p for p in paths if p not in ranked)


def _wrapped(text: str) -> list[str]:
    """Return `text` in lines of up to 100 columns."""
    return wrap(text, 100, initial_indent="    ", subsequent_indent="        ",
                break_on_hyphens=False)  # fmt: skip
