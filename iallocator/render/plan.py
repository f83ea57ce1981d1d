"""Show plans and repairs as plain text, from the documents that ``--json`` writes."""

from __future__ import annotations

from iallocator.errors import MOST_NAMES, many, printable
from iallocator.model.tags import REPAIR_FAILOVER, REPAIR_REINSTALL
from iallocator.names import domains_of
from iallocator.render.drawing import subject, way
from iallocator.render.quality import quality_words
from iallocator.render.table import Column, Table, numeric
from iallocator.units import GIB
from iallocator.wire.codec import on_one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.render.table import Page

__all__ = [
    "COUNTED_COMMANDS", "HBAL", "MOST_NAMED_NODES", "MOVE_COLUMNS", "OBJECTIVE_SUMS",
    "SUM_OF_GROUPS", "WELL", "add_transition", "kept_nodes", "plan", "reboots", "repairs", "rescue",
    "switched_nodes",
]  # fmt: skip

WELL = "Verified: no order of the steps that was tried breaks a limit"
"""The last line of the text of a plan with ``--verify-plan``."""

SUM_OF_GROUPS = "Sum of the groups' scores"
"""The name of the sum of the scores of groups, which is not the score of the whole cluster."""

OBJECTIVE_SUMS = {
    "redistribute": "Instances on offline nodes and nodes that fail N+1",
    "compress": "Instances in the chosen group",
    "balance-groups": "Standard deviations of the groups' relative load, added up",
}
"""Command -> the sum that it lowers, in words; commands that lower the score are left out."""

SHOWN_HEALTHY, SHOWN_BROKEN = "Healthy", "Broken"
"""States of an instance in `repair`."""

COUNTED_COMMANDS = frozenset({"redistribute", "compress"})
"""The commands that lower a number of instances."""

ACTIONS = {
    "offline": "Nodes to offline",
    "online": "Nodes to online",
    "both": "Nodes to switch",
    "none": "No action",
}


def plan(plan: Json, facts: Json, page: Page) -> None:
    """Add a plan to `page`: notes, groups, moves, sums, and steps.

    `facts` has the name of the group of every node, and whether the plan was verified in other
    orders of its steps.
    """
    group_of = facts["group_of"]
    moves, placed, transition = plan["moves"], plan.get("instances"), plan["transition"]
    instances = {entry["name"] for entry in transition["left"]}
    for entry in (*moves, *(placed or ()), *transition["steps"]):
        if "instance" in entry:
            instances.add(entry["instance"])
    page.leave_out(domains_of(group_of, instances))
    sums = _sums(plan, page)
    if not page.hail:
        for text in sums:
            page.say(text, indent=0)
    if "action" in plan:
        page.heading(ACTIONS[plan["action"]] + (":" if plan["nodes"] else ""))
        names = switched_nodes(plan)
        few = names[: page.rows] if page.rows else names
        for name in few:
            page.say(name)
        if len(names) > len(few):
            page.say_more(len(names) - len(few))
    _places(page, plan)
    _groups(page, plan)
    _moves(page, plan, facts)
    if page.hail and sums:
        page.blank()
        for text in sums:
            page.say(text, indent=0)

    if plan.get("kept"):
        page.heading("Left as they are")
        kept_nodes(page, plan)
    add_transition(page, transition)
    page.say_left_out()
    if facts["verified"]:
        page.verbatim(WELL)


def rescue(plan: Json, facts: Json, page: Page) -> None:
    """Add the rescue of a node to `page`: evidence, moves, steps, and instances that stay down.

    The plan may also return the node to service, or have the reason why no node is rescued.
    """
    unsaved = [*plan.get("unsaved", ()), *plan.get("degraded", ())]
    names = {entry["instance"] for entry in (*unsaved, *plan["moves"])}
    page.leave_out(domains_of(facts["group_of"], names))
    if "evidence" in plan:
        evidence = plan["evidence"]
        signs = "; ".join(f"{what}: {text}" for what, text in evidence.items() if text is not True)
        how = f"dead ({signs})" if signs else "taken as dead"
        page.say(f"{plan['node']}: {how}", indent=0)
    idle = not plan["moves"] and "reason" in plan
    if "returns" in plan and not idle:
        page.say(f"{plan['node']}: returns to service", indent=0)
    for text in [plan["reason"]] if idle else _sums(plan, page):
        page.say(printable(text), indent=0)
    for key, title in (
        ("unsaved", "Cannot be saved, the most important first"),
        ("degraded", "Without a new secondary, the most important first"),
    ):
        if plan.get(key):
            page.heading(title)
            table = Table("instance", numeric("priority"), "why")
            for one in plan[key]:
                table.add(one["instance"], str(one["priority"]), one["reason"])
            page.table(table)
    _moves(page, plan, facts)
    add_transition(page, plan["transition"])
    page.say_left_out()
    if facts["verified"]:
        page.verbatim(WELL)


def _sums(plan: Json, page: Page) -> list[str]:
    """Return the summary: moves, copied data, unplaced instances, score, why the plan ends."""
    moves, placed = plan["moves"], plan.get("instances")
    sums = []
    if moves:
        copied = _gib(sum(move["copied_mib"] for move in moves))
        sums.append(f"{len(moves)} move{'s' * (len(moves) > 1)}, {copied} GiB traffic")
    if placed is not None:
        out = sum(1 for one in placed if not one["to"])
        sums.append(f"{out} instance{'s' * (out != 1)} stay{'s' * (out == 1)} out")
    if moves or placed is not None:
        before, after = (plan["scores"][moment] for moment in ("before", "after"))
        if plan["command"] in COUNTED_COMMANDS:
            texts = f"{before:.0f}", f"{after:.0f}"
        else:
            texts = page.scores(before, after)
        several = len(plan.get("groups", ())) > 1 and not page.hail
        usual = SUM_OF_GROUPS if several else "Score"
        sums.append(f"{OBJECTIVE_SUMS.get(plan['command'], usual)}: {texts[0]} -> {texts[1]}")
    sums += filter(None, [quality_words(plan, page.score)])
    if "reason" in plan:
        sums.append(f"The plan ends here: {plan['reason']}")
    return sums


def kept_nodes(page: Page, plan: Json) -> None:
    """Add to `page` the nodes that the plan does not change, and the reasons."""
    table = Table("node", "why")
    for one in plan["kept"]:
        table.add(one["node"], one["reason"])
    page.table(table)


def reboots(plan: Json, facts: Json, page: Page) -> None:
    """Add to `page` the groups of nodes in a plan of ``reboot``, and the nodes left out.

    `facts` has the settings. With ``--no-headers``, the lines are those of hroller, for scripts.
    """
    settings = facts["settings"]
    single, groups = settings.one_step_only, plan["reboots"]
    if settings.no_headers:
        for group in groups:
            for line in group["nodes"] if single else [",".join(group["nodes"])]:
                page.verbatim(printable(line))
            for move in group["moves"] if settings.print_moves else ():
                if move["chosen"]:
                    page.verbatim(printable(f"  {move['instance']} {' '.join(move['nodes'])}"))
    else:
        group_of = facts["group_of"]
        names = (move["instance"] for group in groups for move in group["moves"])
        page.leave_out(domains_of(group_of, names))
        nodes = sum(len(group["nodes"]) for group in groups)
        away = sum(len(group["moves"]) for group in groups)
        counts = (
            f"{many(nodes, 'node')} to reboot in {many(len(groups), 'group')}, "
            f"{many(away, 'move')} away from them"
        )
        reason = plan.get("reason", "")
        page.say(counts if groups else reason[:1].upper() + reason[1:], indent=0)
        for text in filter(None, [quality_words(plan, page.score)]):
            page.say(text, indent=0)
        if groups:
            page.heading("First group" if single else "Groups, rebooted one after the other")
            with_moves = settings.print_moves
            table = Table(numeric("group"), numeric("nodes"), numeric("moves"), "names")
            for number, group in enumerate(groups, start=1):
                nodes, moves = group["nodes"], group["moves"]
                few = page.some(nodes, MOST_NAMED_NODES) if page.rows else ", ".join(nodes)
                table.add(str(number), str(len(nodes)), str(len(moves)), few)
                for move in moves if with_moves else ():
                    if move["chosen"]:
                        text = f"{move['instance']} -> {':'.join(move['nodes'])}"
                        table.add("", "", "", text)
            page.table(table)
        if plan["kept"]:
            page.heading("Not rebooted")
            kept_nodes(page, plan)
        page.say_left_out()
    if facts["verified"]:
        page.verbatim(WELL)


MOST_NAMED_NODES = 8
"""The most nodes of a group of nodes that are named on a terminal."""


def switched_nodes(plan: Json) -> list[str]:
    """Return the nodes to power on or down; if a plan does both, each with ``on`` or ``off``."""
    if plan["action"] != "both":
        return list(plan["nodes"])
    return [f"{name}: {'on' if name in plan['power_on'] else 'off'}" for name in plan["nodes"]]


def _places(page: Page, plan: Json) -> None:
    """Add to `page` the target of every instance, and the reason."""
    if "instances" not in plan:
        return
    count = len(plan["instances"])
    page.heading(
        f"Strategy {plan['strategy']}: {many(count, 'instance')}, in the order of placement"
    )
    if count and {one["why"] for one in plan["instances"]} == {plan.get("reason")}:
        page.say(f"no instance was placed: {plan['reason']}; all instances stay")
        return
    table = Table("instance", "from", "to", "why")
    for one in plan["instances"]:
        before = (":".join(one["from"]) + ("" if one["runs"] else " (not running)")).lstrip()
        table.add(one["instance"], before, ":".join(one["to"]) or "out", one["why"])
        for text in one.get("broken", ()):
            table.add("", "", "", f"should be {text}")
    page.table(table)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _gib(mib: float) -> str:
    return f"{mib / GIB:.1f}"


Cell = tuple[Column, str]
"""A column of a table, and the text of one row in this column."""

RESOURCE_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "memory": ("memory GiB", _gib),
    "disk": ("disk GiB", _gib),
    "cpu": ("cpus", "{:.12g}".format),
}
"""Key of a resource -> its title with the unit, and the function from a value to text."""

GROUP_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("state", "state", str),
    ("repaired", "repaired", _yes),
    ("used", "used", _gib),
    ("free", "free", _gib),
    ("share_free", "share free", "{:.4f}".format),
    ("evacuable", "evacuable", _yes),
    ("verdict", "result", str),
    ("before", "score before", str),
    ("after", "score after", str),
    ("moves", "moves", str),
    ("out", "out", str),
    ("in", "in", str),
)
"""Facts of groups, each shown if it exists: key, title, and the function from a value to text."""


def _groups(page: Page, plan: Json) -> None:
    groups = plan.get("groups", [])
    if not groups:
        return
    page.heading("Groups")
    # Member of a group that holds several amounts -> the names of the amounts
    parts = {name: list(one[name]) for one in groups for name in one if isinstance(one[name], dict)}
    cells = [_group_cells(one, parts, page) for one in groups]
    table = Table("group", *(column for column, _ in cells[0]), "why")
    for one, row in zip(groups, cells):
        table.add(one["group"], *(text for _, text in row), one["reason"])
    page.table(table)


def _group_cells(one: Json, parts: Mapping[str, list[str]], page: Page) -> list[Cell]:
    """Return the columns and texts of a group's facts, without its name and the reason."""
    cells: list[tuple[Column, str]] = []
    for name, title, text in GROUP_COLUMNS:
        if name in parts:
            above = f"load {name}" if name in ("before", "after") else title
            for part in parts[name]:
                head, form = RESOURCE_COLUMNS[part] if above == title else (part, "{:.3f}".format)
                value = "-" if one[name] is None else form(one[name][part])
                cells.append((Column(head, True, above), value))
        elif name in one:
            form = page.score if name in ("before", "after") else text
            value = "-" if one[name] is None else form(one[name])
            cells.append((Column(title, not isinstance(one[name], (str, bool))), value))
    return cells


def _moves(page: Page, plan: Json, facts: Json) -> None:
    """Add to `page` a line per move, with violated soft constraints, and changes of the group."""
    moves, group_of = plan["moves"], facts["group_of"]
    steps: dict[str, list[str]] = {}
    for step in plan["transition"]["steps"]:
        steps.setdefault(step.get("instance", ""), []).append(str(step["number"]))
    if not moves:
        return
    page.heading("Moves")
    left_out = {"steps" if page.hail else HBAL}
    if plan["command"] in COUNTED_COMMANDS:
        left_out.add("score then")
    columns = [one for one in MOVE_COLUMNS if one[0].title not in left_out]
    table = Table(*(column for column, _ in columns))
    for number, move in enumerate(moves, start=1):
        before, after = (group_of[move[end][0]] for end in ("from", "to"))
        groups = [f" ({name})" if before != after else "" for name in (before, after)]
        row = {
            **move,
            "number": number,
            "from": ":".join(move["from"]) + groups[0],
            "to": ":".join(move["to"]) + groups[1],
            "score": page.score(move["score"]),
            "steps": ",".join(steps.get(move["instance"], ())),
        }
        table.add(*(text(row) for _, text in columns))
        for broken in move.get("broken", ()):
            table.add(*[""] * (len(columns) - 1), f"should be {broken}")
    page.table(table)


HBAL = "how (as hbal)"
"""The title of the column with steps in hbal's notation; shown with ``--compat hail``."""

MOVE_COLUMNS: tuple[tuple[Column, Callable[[Json], str]], ...] = (
    (Column("move", number=True), lambda row: str(row["number"])),
    (Column("instance"), lambda row: str(row["instance"])),
    (Column("from"), lambda row: str(row["from"])),
    (Column("to"), lambda row: str(row["to"])),
    (Column("score then", number=True), lambda row: str(row["score"])),
    (Column("GiB copied", number=True), lambda row: _gib(row["copied_mib"])),
    (Column("steps"), lambda row: str(row["steps"])),
    (Column(HBAL), lambda row: f"a={row['move']}"),
)
"""The columns of the table of moves, and the text of each for a move.

A page for a browser has these columns, too.
"""


def add_transition(page: Page, transition: Json) -> None:
    """Add a table of the steps of `transition` to `page`, with their nodes and dependencies.

    The reasons of the dependencies are shown with ``-v``.
    """
    steps = transition["steps"]
    if not steps and not transition["left"]:
        return
    pairs = transition["waits"]
    waits = many(pairs, "wait") if page.hail else many(pairs, "dependency", "dependencies")
    page.heading(
        f"Transition: {many(len(steps), 'step')}, {waits}, "
        f"at most {transition['longest']} one after the other"
    )
    table = Table(numeric("step"), "what", "of", "way", "waits for" if page.hail else "after")
    for step in steps:
        before = [str(number) for number in step["after"]]
        if page.verbose or page.hail:
            before = [f"{n} ({why})" for n, why in zip(step["after"], step["because"])]
        kind = step["kind"] if step["opcodes"] else f"{step['kind']} (by hand)"
        table.add(str(step["number"]), kind, subject(step), way(step), ", ".join(before) or "-")
    if steps:
        page.table(table)
    for entry in transition["left"]:
        page.say(f"not done: {entry['name']}: {entry['reason']}")
    for remark in transition["remarks"]:
        page.say(f"note: {remark}")


def repairs(document: Json, facts: Json, page: Page) -> None:
    """Add to `page` the summary, a table of the repairs, and the instances not repaired now.

    With ``--dry-run``, add the jobs and the changes of tags, too.
    """
    instances, counts = document["instances"], dict(document["counts"])
    page.leave_out(domains_of(facts["nodes"], [one["instance"] for one in instances]))
    # harep calls an instance healthy if no tag says otherwise; for the administrator, it is broken
    broken = [one for one in instances if "broken" in one and one["state"] == SHOWN_HEALTHY]
    if broken:
        counts[SHOWN_HEALTHY] -= len(broken)
        counts[SHOWN_BROKEN] = len(broken)
    shares = [f"{name}: {count}" for name, count in counts.items() if count]
    page.say(f"Instances: {', '.join(shares) or 'none'}", indent=0)
    if instances:
        page.heading("Repairs")
        table = Table("instance", "state", "what is done")
        for one in instances:
            state = one["state"]
            if state == SHOWN_HEALTHY and "broken" in one:
                state = SHOWN_BROKEN
            table.add(one["instance"], state, one["note"] or "-")
        page.table(table)
    if document["broken"]:
        page.heading(f"Broken, and not repaired now: {document['broken']}")
        commands: dict[str, list[str]] = {}
        for one in instances:
            if "broken" in one and "command" in one:
                commands.setdefault(one["command"], []).append(one["instance"])
        for command, names in commands.items():
            page.verbatim(printable(f"  {page.some(names, MOST_NAMES, 'instances')}: {command}"))
        if any(one.get("repair") in (REPAIR_FAILOVER, REPAIR_REINSTALL) for one in instances):
            page.say(
                "Make sure that offline nodes are powered off: otherwise their instances would run "
                "twice."
            )
    if facts["dry_run"]:
        page.heading("Jobs and tags")
        for one in instances:
            tags = one.get("tags", {})
            lines = [on_one_line(code) for code in one.get("opcodes", ())]
            lines += (f"adds the tag {tag}" for tag in tags.get("add", ()))
            lines += (f"removes the tag {tag}" for tag in tags.get("remove", ()))
            for line in [f"{one['instance']}:", *(f"  {line}" for line in lines)] if lines else ():
                page.verbatim(printable(f"  {line}"))
