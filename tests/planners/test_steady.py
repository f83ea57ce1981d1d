"""Test repeated balancing by the history of loads, through the command line."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.command import complaint, printed, run
from tests.schemas import conforms

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NODES = ["node1", "node2", "node3", "node4"]
CPUS = 8


class Life:
    """A small cluster on shared storage, with a folder that keeps the history of its loads.

    Attributes
    ----------
    places:
        The node of each instance; instances that begin on the first node are busy.
    other:
        Name of an instance -> its memory, disk and network load, if it has them.
    tags:
        Name of an instance -> its tag.
    seconds:
        Name of an instance -> its secondary node, if it has one.
    memory, other_memory:
        The MiB of every node, and of nodes with another amount.
    groups:
        Name of a node -> its group, if that is not the default one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = {f"i{k:02}": NODES[k % 4] for k in range(16)}
        self.busy = {name: 1.6 if node == "node1" else 0.6 for name, node in self.places.items()}
        self.other: dict[str, str] = {}
        self.offline: set[str] = set()
        self.tags: dict[str, str] = {}
        self.seconds: dict[str, str] = {}
        self.memory = 16384
        self.other_memory: dict[str, int] = {}
        self.groups: dict[str, str] = {}
        self.templates = "rbd"

    def round(self, hours: float, *options: str, apply: bool = True) -> dict[str, Any]:
        """Run balance at `hours` after the beginning, and execute its moves if `apply`."""
        cluster, loads = self.folder / "cluster.data", self.folder / "loads"
        cluster.write_text(self._cluster(), encoding="utf-8")
        wave = 1 + 0.2 * math.sin(hours / 24 * 2 * math.pi)
        loads.write_text(
            "".join(
                f"{name} {load * wave:.4f} {self.other.get(name, '0 0 0')}\n"
                for name, load in self.busy.items()
            ),
            encoding="utf-8",
        )
        moment = (BEGIN + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
        done = run(
            "balance", "--steady", "-t", str(cluster), "-U", str(loads), "--now", moment,
            "--history", str(self.folder / "history"), "--all-groups", "--json", *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        plan: dict[str, Any] = json.loads(done.stdout)
        conforms(plan, "plan")
        for move in plan["moves"] if apply else ():
            name = move["instance"]
            assert move["from"] == [self.places[name], *filter(None, [self.seconds.get(name)])]
            self.places[name], *second = move["to"]
            self.seconds |= {name: second[0]} if second else {}
        return plan

    def day(self) -> None:
        """Run balance each hour until the history is long enough; assert that nothing moves."""
        for hour in range(24):
            assert self.round(hour, "--overload=2")["moves"] == []

    def load(self, node: str) -> float:
        """Return the mean load of a node as a share of its cpus."""
        return sum(self.busy[name] for name, at in self.places.items() if at == node) / CPUS

    def _cluster(self) -> str:
        used = {node: 1024 * sum(at == node for at in self.places.values()) for node in NODES}
        names = dict.fromkeys(["default", *self.groups.values()])
        memory = dict.fromkeys(NODES, self.memory) | self.other_memory
        lines = [*(f"{name}|uuid-{name}|preferred||" for name in names), ""]
        lines += [
            f"{node}|{memory[node]}|0|{memory[node] - used[node]}|100000|100000|{CPUS}|"
            f"{'Y' if node in self.offline else 'N'}|uuid-{self.groups.get(node, 'default')}"
            for node in NODES
        ]
        lines += ["", *(
            f"{name}|1024|0|2|running|Y|{node}|{self.seconds.get(name, '')}|{self.templates}|"
            f"{self.tags.get(name, '')}"
            for name, node in self.places.items()
        )]  # fmt: skip
        return "\n".join([*lines, "", ""])


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def test_nothing_moves_without_history_and_the_reason_is_reported(life: Life) -> None:
    plan = life.round(2)
    assert plan["moves"] == []
    assert "the history covers 0.0 hours" in plan["reason"]
    assert plan["steady"]["sample_count"] == 1


def test_busy_node_is_relieved_with_few_moves_that_are_not_repeated(life: Life) -> None:
    life.day()
    assert life.load("node1") == pytest.approx(0.8)
    plan = life.round(24.2)
    assert 1 <= len(plan["moves"]) <= 4
    assert plan["steady"]["groups"][0]["deviation_after"] < plan["steady"]["groups"][0]["deviation"]
    moved = {move["instance"] for move in plan["moves"]}
    for hours in (25, 26, 40, 49):
        again = life.round(hours)
        assert moved.isdisjoint(move["instance"] for move in again["moves"])
    loads = [life.load(node) for node in NODES]
    assert max(loads) - min(loads) < 0.2


def test_moves_only_in_permitted_hours(life: Life) -> None:
    life.day()
    assert "from 2:00 to 4:00" in life.round(24.5, "--hours=2-4")["reason"]
    assert life.round(26.5, "--hours=2-4", apply=False)["moves"]
    assert life.round(26.6, "--hours=22-4")["moves"]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("cost", "no move that gains more than its cost is within --cost"),
        ("memory", "no move that gains more than its cost is possible"),
        ("even", "no move gains more than its cost"),
    ],
)
def test_reason_names_what_prevents_useful_moves(life: Life, case: str, reason: str) -> None:
    """The reason is different for useful moves that `--cost` or limits prevent, and for none."""
    if case == "even":
        life.busy = dict.fromkeys(life.busy, 0.6)
    if case == "memory":
        life.memory = 5000
    life.day()
    plan = life.round(24.2, *(["--cost=0.5"] if case == "cost" else ["--n1=off"]))
    assert plan["moves"] == []
    assert plan["reason"].startswith(reason)


def test_plan_that_was_not_executed_is_made_again(life: Life) -> None:
    life.day()
    first = life.round(24.2, apply=False)
    again = life.round(24.5)
    assert first["moves"]
    assert {m["instance"] for m in again["moves"]} == {m["instance"] for m in first["moves"]}


def test_caps_count_moves_of_earlier_rounds(life: Life) -> None:
    life.day()
    assert len(life.round(24.2, "--hourly-moves=1")["moves"]) == 1
    assert life.round(24.5, "--hourly-moves=1")["moves"] == []
    assert len(life.round(25.5, "--hourly-moves=1")["moves"]) == 1
    assert life.round(27, "--nightly-moves=2")["moves"] == []


@pytest.mark.parametrize("cap", ["--hourly-moves=2", "--nightly-moves=2"])
def test_planned_moves_count_when_planned_not_when_seen(life: Life, cap: str) -> None:
    """`balance` counts a planned move for the maxima of moves at the time of its plan.

    If rounds are half a day apart, it sees the moves of a plan at a time at which more may move.
    """
    life.day()
    assert len(life.round(24.2, cap)["moves"]) == 2
    moves = life.round(36.5, cap, "--hours=0-24", "--overload=2")["moves"]
    assert len(moves) >= 1


def test_moves_of_others_count_when_seen(life: Life) -> None:
    """`balance` counts moves that it did not plan for the maxima of moves when it sees them."""
    life.day()
    life.places["i00"] = "node2"
    assert life.round(24.2, "--hourly-moves=1")["moves"] == []


def test_four_samples_six_hours_apart_cover_a_day(life: Life) -> None:
    """Each sample stands for the time until the next round: the fourth one completes a day."""
    for hours in (6, 12, 18):
        assert life.round(hours, "--overload=2")["moves"] == []
    assert life.round(24, "--overload=2")["moves"]


def test_instances_move_after_three_samples_a_day_apart(life: Life) -> None:
    """`balance` with one round a day plans moves in the third round."""
    for hours in (1, 25):
        assert life.round(hours, "--overload=2")["moves"] == []
    assert life.round(49, "--overload=2")["moves"]


def test_node_is_relieved_before_a_peak_that_precedes_the_next_round(life: Life) -> None:
    """If rounds are hours apart, `balance` relieves a node that a peak before the next overloads.

    The load of node1 is 0.83 of its cpus at midnight, and rises to 0.99 at 6:00.
    """
    life.busy |= {name: 1.65 for name, node in life.places.items() if node == "node1"}
    options = ("--hours=9-10", "--least-history=20", "--steady-gain=50")
    for hours in (0, 6, 12, 18):
        assert life.round(hours, *options, "--overload=2")["moves"] == []
    moves = life.round(24, *options)["moves"]
    assert {move["from"][0] for move in moves} == {"node1"}
    assert 1.2 * life.load("node1") < 0.9


def test_no_peak_is_foreseen_if_rounds_are_an_hour_apart(life: Life) -> None:
    """With one round an hour, `balance` relieves a node when it is overloaded, not hours before."""
    life.busy |= {name: 1.65 for name, node in life.places.items() if node == "node1"}
    life.day()
    assert life.round(24, "--hours=9-10", "--steady-gain=50")["moves"] == []


@pytest.mark.parametrize("relief", [False, True])
def test_soft_constraints_are_not_violated_for_a_gain(life: Life, relief: bool) -> None:
    """`balance` moves no instance to a node on which it violates more soft constraints.

    An overloaded node is relieved nevertheless, but to a node without such a violation if possible.
    """
    life.tags = {name: "iallocator:separate:should:web" for name, at in life.places.items()
                 if at in ("node1", "node2", "node3")}  # fmt: skip
    life.day()
    if relief:
        life.busy |= {name: 2.0 for name, node in life.places.items() if node == "node1"}
        life.round(36)
    moves = life.round(36.5 if relief else 24.2)["moves"]
    assert moves
    tagged = [move["to"] for move in moves if move["instance"] in life.tags]
    assert tagged == [["node4"]] * len(tagged)


def test_shadow_reports_moves_and_plans_none(life: Life) -> None:
    life.day()
    plan = life.round(24.2, "--shadow")
    assert plan["moves"] == []
    assert plan["steady"]["shadow_moves"]
    assert "would have been planned" in plan["reason"]
    assert life.round(24.4)["moves"]


def test_new_imbalance_must_last(life: Life) -> None:
    life.busy = dict.fromkeys(life.busy, 0.6)
    life.day()
    life.busy |= {name: 1.6 for name, node in life.places.items() if node == "node1"}
    for hours in (24, 24.3, 24.6, 24.9):
        assert life.round(hours)["moves"] == []
    for hours in range(25, 48):
        life.round(hours)
    assert life.round(49)["moves"] or life.load("node1") < 0.8


def test_overloaded_node_is_relieved_outside_the_permitted_hours(life: Life) -> None:
    life.day()
    life.busy |= {name: 2.0 for name, node in life.places.items() if node == "node1"}
    options = ("--hours=2-4",)
    assert life.round(36, *options)["moves"] == []
    moves = life.round(36.5, *options)["moves"]
    assert moves
    assert {move["from"][0] for move in moves} == {"node1"}
    assert life.load("node1") < 0.9


def test_overloaded_node_is_relieved_after_the_first_hour_of_a_new_history(life: Life) -> None:
    for name, node in life.places.items():
        life.busy[name] = 1.9 if node == "node1" else 0.6
    for hour in (0, 0.4, 0.9):
        assert life.round(hour, "--hours=9-10")["moves"] == []
    assert 1 <= len(life.round(1.1, "--hours=9-10")["moves"]) <= 2
    assert life.load("node1") < 0.9


@pytest.mark.parametrize(("least_history", "relieved"), [(24, True), (1, False)])
def test_node_is_relieved_below_the_limit_while_the_history_is_short(
    life: Life, least_history: int, relieved: bool
) -> None:
    """`balance` relieves a node below the limit while the history of loads is short.

    The loads of its instances vary, so that a node at 0.8 of its cpus may soon exceed 0.9.
    """
    on_first = [name for name, node in life.places.items() if node == "node1"]
    for turn, hour in enumerate((0, 0.4, 0.8, 1.1)):
        for k, name in enumerate(on_first):
            life.busy[name] = 1.9 if (k + turn) % 2 else 1.3
        assert life.load("node1") == pytest.approx(0.8)
        moves = life.round(hour, "--hours=9-10", f"--least-history={least_history}")["moves"]
    assert bool(moves) == relieved
    assert {move["from"][0] for move in moves} == ({"node1"} if relieved else set())


def test_node_is_relieved_before_the_hours_in_which_it_will_be_overloaded(life: Life) -> None:
    life.busy |= {name: 1.65 for name, node in life.places.items() if node == "node1"}
    life.day()  # the load of node1 rises to 0.99 of its cpus at 6:00
    assert life.round(24.2, "--steady-gain=50", "--overload=2")["moves"] == []
    moves = life.round(24.4, "--steady-gain=50", "--overload=0.9")["moves"]
    assert {move["from"][0] for move in moves} == {"node1"}
    assert 1.2 * life.load("node1") < 0.9


def test_overloaded_node_is_relieved_if_rounds_are_hours_apart(life: Life) -> None:
    for name, node in life.places.items():
        life.busy[name] = 1.9 if node == "node1" else 0.6
    assert life.round(0, "--hours=9-10")["moves"] == []
    moves = life.round(6, "--hours=9-10")["moves"]
    assert {move["from"][0] for move in moves} == {"node1"}
    assert life.load("node1") < 0.9


def test_relief_ends_when_no_busy_instance_may_leave_the_node(life: Life) -> None:
    """`balance` keeps busy instances on their node if no other node has capacity for them."""
    life.busy = dict.fromkeys(life.busy, 1.95)
    for hour in (1, 1.4, 1.8, 2.2, 2.6):
        plan = life.round(hour, "--hours=9-10")
        assert plan["moves"] == []
    assert plan["reason"] == "no further move relieves an overloaded node"


def test_days_before_yesterday_count_one_sample_for_each_hour(life: Life) -> None:
    for hour in (0, 0.2, 0.4, 1, 1.3, 30, 30.2):
        life.round(hour)
    assert life.round(31)["steady"]["sample_count"] == 8
    assert life.round(55)["steady"]["sample_count"] == 2 + 3 + 1


def test_unhealthy_cluster_moves_nothing(life: Life) -> None:
    life.day()
    life.offline = {"node3", "node4"}
    assert "2 nodes offline or drained" in life.round(24.2)["reason"]
    life.offline = set()
    life.memory = 5000
    plan = life.round(24.4)
    assert plan["moves"] == []
    assert plan["reason"].startswith(
        "N+1 does not hold: if node1 fails, i00, i04, i08 and 1 more cannot be restarted; nothing "
        "moves for loads before N+1 holds, and it is repaired after 24 hours (now 0.0)"
    )
    for hours in (30, 36, 42, 48):
        assert "(now " in life.round(hours)["reason"]
    assert "permitted from 9:00" in life.round(48.5, "--hours=9-10")["reason"]
    assert "; no move repairs it; nothing moves for loads" in life.round(49)["reason"]


def test_n1_that_held_in_between_is_not_repaired_at_once(life: Life) -> None:
    """A violation that began anew is left to a person for a day."""
    violate(life, 8000)
    life.day()
    life.memory = 16384
    life.round(24.1, apply=False)
    life.memory = 8000
    plan = life.round(24.2)
    assert plan["moves"] == []
    assert "it is repaired after 24 hours (now 0.0)" in plan["reason"]
    assert "(now 0.3)" in life.round(24.5)["reason"]


def violate(life: Life, memory: int) -> None:
    """Let node2 have no memory for all the failovers from node1; all nodes have `memory` MiB."""
    life.templates, life.memory = "drbd", memory
    for name, node in life.places.items():
        others = [other for other in NODES if other != node]
        life.seconds[name] = "node2" if node == "node1" else others[int(name[1:]) // 4 % 3]


def test_moves_that_repair_n1_come_before_moves_for_loads(life: Life) -> None:
    """If N+1 does not hold, `balance --steady` only plans the moves that repair it.

    Afterwards, instances move for loads.
    """
    violate(life, 8000)
    life.day()
    plan = life.round(24.2)
    assert len(plan["moves"]) == 1
    assert plan["reason"].startswith("N+1 does not hold: if node1 fails, ")
    assert plan["reason"].endswith("; the plan repairs it, before anything moves for loads")
    plan = life.round(25.2)
    assert "N+1 does not hold" not in plan["reason"]
    assert plan["moves"]


def test_repair_of_n1_keeps_the_limits_of_steady_balancing(life: Life) -> None:
    """The moves that repair N+1 count for the caps, and an instance rests after its move."""
    violate(life, 7000)
    life.day()
    assert life.round(24.1, "--hours=9-10")["moves"] == []
    plan = life.round(24.2, "--hourly-moves=1")
    (first,) = plan["moves"]
    assert "the plan repairs only a part: the caps" in plan["reason"]
    assert life.round(24.4, "--hourly-moves=1")["moves"] == []
    (second,) = life.round(25.4, "--hourly-moves=1")["moves"]
    assert first["instance"] != second["instance"]
    assert "N+1 does not hold" not in life.round(26.4)["reason"]


def test_n1_is_not_repaired_while_a_node_is_away(life: Life) -> None:
    """Disks are not copied because a node is offline for a short time, as during a reboot."""
    violate(life, 8000)
    life.day()
    life.offline = {"node4"}
    plan = life.round(24.2)
    assert plan["moves"] == []
    assert plan["reason"].endswith(
        "cannot be restarted; this is not repaired while node4 is offline or drained"
    )
    life.offline = set()
    assert life.round(24.4)["moves"]


def test_violated_n1_of_one_group_does_not_stop_another_group(life: Life) -> None:
    """N+1 that does not hold in a group stops balancing in this group only."""
    life.groups = {"node3": "other", "node4": "other"}
    life.other_memory = {"node3": 5000, "node4": 5000}
    life.day()
    plan = life.round(24.2)
    assert {move["from"][0] for move in plan["moves"]} == {"node1"}
    assert "if node3 fails" in plan["reason"]


def test_damaged_missing_and_foreign_lines_are_left_out(life: Life) -> None:
    life.day()
    folder = life.folder / "history"
    (day,) = sorted(folder.iterdir())
    lines = day.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3][:40]
    lines[4] = '{"time": 1, "instances": [], "planned": []}'
    day.write_text("\n".join([*lines, "\x00half a li"]), encoding="utf-8")
    (folder / "2025-12-31.jsonl").write_bytes(b"\xff\xfe")
    (folder / "notes.txt").write_text("keep me", encoding="utf-8")
    plan = life.round(24.2)
    assert plan["moves"]
    assert plan["steady"]["sample_count"] == 23
    assert life.round(24.4)["steady"]["sample_count"] == 24
    assert (folder / "notes.txt").exists()


def test_lines_of_another_day_and_nodes_that_are_no_list_are_damaged(life: Life) -> None:
    """A line that was written by hand does not lengthen the history, or count as a move."""
    life.round(0)
    path = life.folder / "history" / "2026-01-01.jsonl"
    line = path.read_text(encoding="utf-8").strip()
    node = json.loads(line)["instances"]["i00"]["nodes"][0]
    with path.open("a", encoding="utf-8") as file:
        file.write(line.replace("2026-01-01T", "2025-11-01T") + "\n")
        file.write(line.replace(f'["{node}"]', '"node2"').replace("T00:00", "T00:10") + "\n")
    plan = life.round(0.5)
    assert plan["steady"]["sample_count"] == 2
    assert plan["steady"]["history_hours"] == pytest.approx(0.5)


def test_history_is_bounded(life: Life) -> None:
    for day in range(15):
        life.round(24 * day, apply=False)
    assert len(list((life.folder / "history").iterdir())) == 11


def test_clock_that_was_wrong_once_does_not_remove_the_history(life: Life) -> None:
    """One round with a time in the future keeps the earlier files; the history stays bounded."""
    for day in range(4):
        life.round(24 * day, apply=False)
    life.round(24 * 400, apply=False)
    assert life.round(24 * 4, apply=False)["steady"]["sample_count"] == 5
    for day in range(5, 20):
        life.round(24 * day, apply=False)
    assert len(list((life.folder / "history").iterdir())) == 12


def test_new_removed_and_resized_instances_do_not_matter(life: Life) -> None:
    life.day()
    life.places["new"] = "node1"
    life.busy["new"] = 0.1
    for name in ("i01", "i02"):
        del life.places[name], life.busy[name]
    moves = life.round(24.2)["moves"]
    assert moves
    assert "new" not in {move["instance"] for move in moves}


@pytest.mark.parametrize("days", [1, 4])
def test_renamed_instance_rests_after_a_move_under_its_old_name(life: Life, days: int) -> None:
    """`balance` recognises a renamed instance by its nodes; it moves again after three days.

    Two instances move, are renamed, and become so busy that one of them should leave their node.
    """
    life.day()
    for name in ("i00", "i04"):
        life.places[name] = "node2"
    life.round(24.2, "--overload=2", "--hourly-moves=1")
    for name in ("i00", "i04"):
        life.places[f"new-{name}"] = life.places.pop(name)
        life.busy[f"new-{name}"] = life.busy.pop(name) + 2
    again: set[str] = set()
    for hours in range(25, 24 * (days + 1), 2):
        moves = life.round(hours, "--exclude-instances=i01,i05,i09,i13")["moves"]
        again |= {move["instance"] for move in moves}
    assert bool(again & {"new-i00", "new-i04"}) == (days == 4)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--shadow"], "--shadow needs --steady"),
        (["--steady", "--min-gain=1"], "--steady and --min-gain exclude each other"),
        (["--steady", "--compat=hail"], "--steady and --compat exclude each other"),
        (["--steady", "--now=yesterday"], "a time with its zone"),
        (["--steady", "--now=0001-01-01T00:00:00Z"], "a time with its zone"),
        (["--steady", "--hours=6"], "two hours of the day"),
    ],
)
def test_wrong_options_are_rejected(words: list[str], problem: str) -> None:
    assert problem in complaint(run("balance", *words, "docs/examples/cluster.json"))


@pytest.mark.parametrize("moment", ["2026-01-02t03:10:00z", "2026-01-02T05:10:00+02:00"])
def test_time_of_a_round_has_any_form_of_rfc_3339(moment: str, tmp_path: Path) -> None:
    loads = tmp_path / "loads"
    loads.write_text("files 1 0 0 0\n")
    history = f"--history={tmp_path / 'rounds'}"
    words = ["--steady", f"-U{loads}", history, f"--now={moment}"]
    printed("balance", *words, "docs/examples/cluster.json")
    (file,) = (tmp_path / "rounds").iterdir()
    assert '"time":"2026-01-02T03:10:00Z"' in file.read_text()


def test_loads_are_required(tmp_path: Path) -> None:
    words = ["--steady", f"--history={tmp_path}", "docs/examples/cluster.json"]
    assert "needs measured loads, which" in complaint(run("balance", *words))


def history(life: Life, *options: str) -> dict[str, Any]:
    """Return the document that `history --json` prints for the folder of loads."""
    done = run("history", "--json", *options, str(life.folder / "history"))
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_history_shows_gain_cost_and_regrets(life: Life) -> None:
    life.day()
    plan = life.round(24.2)
    planned = {move["instance"] for move in plan["moves"]}
    life.round(25)
    found = history(life)
    assert found["rounds"] == 26
    assert {move["instance"] for move in found["moves"]} == planned
    assert all(move["planned"] and move["gain"] > 0 for move in found["moves"])
    lowered = plan["steady"]["groups"][0]
    assert found["gain"] == pytest.approx(
        lowered["deviation"] - lowered["deviation_after"], abs=0.001
    )
    assert found["regrets"] == 0

    first = found["moves"][0]
    (life.places[first["instance"]],) = first["from"]
    life.round(60)
    found = history(life)
    assert found["regrets"] == 1
    assert found["moves"][0]["returned"] == (BEGIN + timedelta(hours=60)).timestamp()
    assert not found["moves"][-1]["planned"]
    assert len(history(life, "--last=1")["moves"]) == 1
    assert {move["instance"] for move in history(life, f"--text={first['instance']}")["moves"]} == {
        first["instance"]
    }
    text = " ".join(run("history", str(life.folder / "history")).stdout.decode().split())
    assert "1 regret (moves taken back within a week)" in text


def test_history_of_loads_has_no_outcomes(life: Life) -> None:
    life.round(0)
    folder = life.folder / "history"
    assert "captured calls" in complaint(run("history", "--outcome=failed", str(folder)))
    with (folder / "2026-01-01.jsonl").open("a") as file:
        file.write('{"time":"2026-01-01T05:00:00Z","instances":{},"planned":[{"instance":"a"}]}\n')
    done = run("history", str(folder))
    assert done.returncode == 0
    assert "1 damaged lines" in done.stderr.decode()
    assert "1 round, and no move" in done.stderr.decode()


@pytest.mark.parametrize("minutes", [10, 30])
def test_more_samples_in_an_hour_do_not_count_more(life: Life, minutes: int) -> None:
    """More samples within an hour do not change the deviation that `balance` expects."""

    def deviation(step: int) -> float:
        folder = life.folder / f"history{step}"
        folder.mkdir()
        for minute in [*range(0, 40 * 60, 60), *range(40 * 60, 60 * 60, step)]:
            moment = BEGIN + timedelta(minutes=minute)
            instances = {
                name: {
                    "nodes": [node],
                    "load": [1.6 if node == "node1" and minute < 40 * 60 else 0.6, 0, 0, 0],
                    "vcpus": 2,
                }
                for name, node in life.places.items()
            }
            line = {"time": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "instances": instances, "planned": []}
            with (folder / f"{moment:%Y-%m-%d}.jsonl").open("a") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        life.busy = dict.fromkeys(life.busy, 0.6)
        plan = life.round(60, f"--history={folder}", "--shadow")
        return float(plan["steady"]["groups"][0]["deviation"])

    assert deviation(minutes) == pytest.approx(deviation(60), rel=0.02)


def test_score_uses_the_history_of_all_loads(life: Life) -> None:
    """The score of a round counts memory loads as the history gives them, not the last sample."""
    life.day()
    words = ("--overload=2", "--least-history=168")
    calm = life.round(24.2, *words)["scores"]["before"]
    life.other = {"i00": "4.0 0 0"}
    surge = life.round(24.4, *words)["scores"]["before"]
    for hours in range(25, 73):
        lasting = life.round(hours, *words)["scores"]["before"]
    assert calm < surge < calm + 0.3 * (lasting - calm)


@pytest.mark.parametrize("words", ["{} 0 0", "0 {} 0", "0 0 {}"], ids=["memory", "disk", "network"])
def test_node_with_far_more_other_load_than_the_mean_is_relieved(life: Life, words: str) -> None:
    """`balance` moves instances off a node with most of the memory, disk or network load."""
    life.busy = dict.fromkeys(life.busy, 0.1)
    life.other = {name: words.format(4 if at == "node1" else 1) for name, at in life.places.items()}
    life.day()
    moves = life.round(24.2)["moves"]
    assert 1 <= len(moves) <= 2
    assert {move["from"][0] for move in moves} == {"node1"}
    for hours in range(25, 54):
        assert life.round(hours)["moves"] == []


def test_new_imbalance_of_other_loads_must_last(life: Life) -> None:
    life.busy = dict.fromkeys(life.busy, 0.1)
    life.other = dict.fromkeys(life.places, "0 0 1")
    life.day()
    life.other |= {name: "0 0 4" for name, at in life.places.items() if at == "node1"}
    for hours in (24, 24.3, 24.6, 24.9):
        assert life.round(hours)["moves"] == []
    later = [hours for hours in range(26, 60) if life.round(hours, "--hours=0-24")["moves"]]
    assert later


def test_other_loads_that_are_equal_move_nothing(life: Life) -> None:
    """Loads that are equal for all instances at all times are not measured loads."""
    life.busy = dict.fromkeys(life.busy, 0.05)
    life.other = dict.fromkeys(life.places, "1 1 1")
    crowded = [name for name, node in life.places.items() if node != "node1"][:9]
    life.places |= dict.fromkeys(crowded, "node1")
    life.day()
    assert life.round(24.2)["moves"] == []


def test_small_differences_of_other_loads_move_nothing(life: Life) -> None:
    life.busy = dict.fromkeys(life.busy, 0.1)
    life.other = {name: "1 2 1.3" if at == "node1" else "1 1.5 1"
                  for name, at in life.places.items()}  # fmt: skip
    life.day()
    assert life.round(24.2)["moves"] == []
