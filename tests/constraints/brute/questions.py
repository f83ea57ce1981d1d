"""Ask the program one question about a tiny cluster, and compare the answer with all placements.

Each function returns the kind of the outcome, so that a test can require that every kind occurs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from tests.builders import Json, as_bytes
from tests.command import json_of, respond, run
from tests.constraints.brute.draw import Kinds, asked_for, draw, some_kinds
from tests.constraints.brute.rules import METADATA, Homes, Loss, Rules, homes_of

__all__ = ["QUESTIONS", "SLOW", "ask"]

SLOW = ("balance", "squeeze", "capacity", "between groups")
"""The questions that take tens of milliseconds."""

GAIN = 1e-4
"""The decrease of the score below which `balance` may leave out a move."""

MOST_RESTARTED = 12
"""The largest number of instances of a cluster for which all combinations of restarts are tried."""

MOST_STATES, MOST_SCORED = 1200, 100
"""The most placements that are searched for the best plan, and of which scores are counted."""


def ask(kind: str, question: str, seed: int) -> str:
    """Ask `question` about the cluster number `seed` with tags for `kind`; return the outcome."""
    rng = Random(f"{kind}/{seed}")
    kinds, templates = some_kinds(rng, kind)
    document, template = draw(rng, kinds, templates)
    return QUESTIONS[question](Random(f"{kind}/{question}/{seed}"), kinds, document, template)


def allocate(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that the possible placements are the legal ones, and the answer the best one of a
    group.
    """
    wanted = asked_for(rng, kinds, document, template)
    rules, where = Rules(document, {"new": wanted}), homes_of(document)
    legal = [nodes for nodes in rules.places("new") if not rules.obstacle(where, "new", nodes)]
    answer = respond({**document, "request": wanted}, "--n1=off")
    assert answer["success"] is bool(legal), (legal, answer["info"])
    if not legal:
        return "rejected"
    chosen = tuple(answer["result"])
    assert chosen in legal, (chosen, legal)
    group = document["nodes"][chosen[0]]["group"]
    mine = [nodes for nodes in legal if document["nodes"][nodes[0]]["group"] == group]
    assert answer["solutions"][0]["successes"] == len(mine), (mine, answer["info"])
    if len(document["nodegroups"]) == 1:
        costs = {nodes: rules.objective({**where, "new": nodes}) for nodes in legal}
        assert costs[chosen] == pytest.approx(min(costs.values()), abs=1e-7), costs
    return "placed"


def allocate_with_n1(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that an instance is placed only where no failure loses more than before.

    The loss of a failure is counted in instances and in memory.

    If no failure loses an instance before, it is placed whenever such nodes exist.
    """
    wanted = asked_for(rng, kinds, document, template, big=False)
    rules, where = Rules(document, {"new": wanted}), homes_of(document)
    before = rules.losses(where)
    whole = not any(loss.instances for loss in before.values())
    legal = []
    for nodes in rules.places("new"):
        after = {**where, "new": nodes}
        allowed = not rules.obstacle(where, "new", nodes, "no-worse")
        if allowed and not grown(before, rules.losses(after)):
            legal.append(nodes)
    answer = respond({**document, "request": wanted})
    if answer["success"]:
        assert tuple(answer["result"]) in legal, (answer["result"], legal)
        return "placed"
    assert not (legal and whole), (legal, answer["info"])
    return "rejected"


def grown(before: dict[str, Loss], after: dict[str, Loss], memory: bool = True) -> list[str]:
    """Return the nodes of which the failure loses more than before."""
    return [
        node
        for node, loss in after.items()
        if loss.instances > before[node].instances or (memory and loss.memory > before[node].memory)
    ]


def batch(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that as many new instances are placed as any choice of legal places allows."""
    wanted = {
        f"new{k}": asked_for(rng, kinds, document, template, f"new{k}")
        for k in range(rng.choice((2, 2, 3)))
    }
    rules, where = Rules(document, wanted), homes_of(document)
    ways = {name: list(rules.places(name)) for name in wanted}
    most = rules.most_placed(where, ways)
    request = {"type": "multi-allocate", "instances": list(wanted.values())}
    answer = respond({**document, "request": request}, "--n1=off")
    now = dict(where)
    placed = answer["result"][0] if answer["result"] else []
    for name, nodes in placed:
        assert not rules.obstacle(now, name, tuple(nodes), leaving=()), (name, nodes)
        now[name] = tuple(nodes)
    assert len(placed) == most, (most, placed, answer["info"])
    return "all" if most == len(wanted) else "some"


def evacuate(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that as many instances leave their node as any choice of legal places allows."""
    mode = rng.choice(("primary-only", "secondary-only", "all"))
    role = {"primary-only": 0, "secondary-only": 1}.get(mode)
    where = homes_of(document)
    nodes = [n for n in document["nodes"] if any(n in at for at in where.values())]
    if not nodes:
        return "empty"
    left = rng.choice(nodes)
    names = [n for n, at in where.items() if left in (at if role is None else at[role : role + 1])]
    if not names:
        return "empty"
    rules = Rules(document)
    closed = {node for name in names for node in (where[name] if role is None else [left])}
    ways = {name: _ways_out(rules, where[name], mode, closed) for name in names}
    most = 0 if template == "plain" else rules.most_placed(where, ways, frozenset(names))
    request = {"type": "node-evacuate", "instances": names, "evac_mode": mode}
    answer = respond({**document, "request": request}, "--n1=off")
    done, failed, _ = answer["result"]
    now, at = dict(where), {e["instance"]: tuple(e["nodes"]) for e in answer["solutions"] if
                            "nodes" in e}  # fmt: skip
    waiting = set(names)
    for name, _, _ in done:
        waiting.remove(name)
        assert at[name] in ways[name], (name, at[name], ways[name])
        why = rules.obstacle(now, name, at[name], leaving=waiting)
        assert not why, (name, at[name], why)
        now[name] = at[name]
    assert len(done) == most, (mode, most, done, failed)
    return f"{mode}: {'all' if most == len(names) else 'some'}"


def _ways_out(
    rules: Rules, present: tuple[str, ...], mode: str, closed: set[str]
) -> list[tuple[str, ...]]:
    """Return where an instance may go if the nodes `closed` are evacuated, as Ganeti moves it."""
    group = rules.nodes[present[0]]["group"]
    others = [
        node
        for node, raw in rules.nodes.items()
        if node not in present and node not in closed and raw["group"] == group
    ]
    if len(present) == 1:
        return [] if mode == "secondary-only" else [(node,) for node in others]
    if mode == "primary-only":
        return [present[::-1]]
    if mode == "secondary-only":
        return [(present[0], node) for node in others]
    return [(one, other) for one in others for other in others if one != other]


def change_group(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that as many instances change their group as any choice of legal places allows."""
    where = homes_of(document)
    if not where or len(document["nodegroups"]) == 1:
        return "empty"
    names = rng.sample(sorted(where), min(len(where), rng.choice((1, 2))))
    rules = Rules(document)
    nodes = document["nodes"]
    own = {nodes[where[name][0]]["group"] for name in names}
    ways = {
        name: [way for way in rules.places(name) if nodes[way[0]]["group"] not in own]
        for name in names
    }
    most = 0 if template == "plain" else rules.most_placed(where, ways, frozenset(names))
    request = {"type": "change-group", "instances": names, "target_groups": []}
    done, failed, _ = respond({**document, "request": request}, "--n1=off")["result"]
    now = dict(where)
    waiting = set(names)
    for name, _, to in done:
        waiting.remove(name)
        why = rules.obstacle(now, name, tuple(to), leaving=waiting)
        assert not why, (name, to, why)
        now[name] = tuple(to)
    assert len(done) == most, (most, done, failed)
    return "all" if most == len(names) else "some"


def failures(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that `check` reports the failures and the losses that a search of all restarts
    finds.
    """
    rules, where = Rules(document), homes_of(document)
    expected = {node: loss for node, loss in rules.losses(where).items() if loss.instances}
    words = ("check", "--no-simulation", "--failures=1", "--json")
    found = json.loads(run(*words, stdin=as_bytes(document)).stdout)
    sets = found["node_failures"]["sets"]
    losing = {one["nodes"][0]: (len(one["lost"]), one["lost_memory"]) for one in sets["losing"]}
    assert sets["tolerated_count"] == len(rules.nodes) - len(expected), (expected, losing)
    for node, (count, memory) in losing.items():
        loss = expected[node]
        assert count == loss.instances, (node, losing[node], loss)
        assert memory >= loss.memory, (node, losing[node], loss)
    reported = {
        one["node"]
        for group in found["groups"]
        for one in group["findings"]
        if one["kind"] == "global_n1"
    }
    assert reported == expected.keys(), (reported, expected)
    return "lost" if expected else "tolerated"


def follow(rules: Rules, plan: Json, mode: str, before: dict[str, Loss] | None = None) -> Homes:
    """Return the placement after a plan; after each move it must be legal, as its step must be."""
    first = homes_of(rules.document)
    now: dict[str, tuple[str, ...]] = dict(first)
    for move in plan["moves"]:
        name, nodes = move["instance"], tuple(move["to"])
        why = rules.obstacle(now, name, nodes)
        assert not why, (move["from"], nodes, name, why)
        if rules.pinned(name):
            assert nodes[0] == first[name][0], (name, nodes)
        now[name] = nodes
        if before is not None and plan["command"] == "balance":
            assert not grown(before, rules.losses(now), memory=False), (mode, move)
    if before is not None and mode == "no-worse":
        assert not grown(before, rules.losses(now)), (mode, plan["moves"])
    step_by_step: dict[str, tuple[str, ...]] = dict(first)
    for step in plan["transition"]["steps"]:
        if step.get("instance") is None or not step.get("to"):
            continue
        name, nodes = step["instance"], tuple(step["to"])
        assert step_by_step[name] == tuple(step["from"]), step
        why = rules.obstacle(step_by_step, name, nodes, soft=False)
        assert not why, (name, step["from"], nodes, why)
        step_by_step[name] = nodes
    assert step_by_step == now
    return now


def planned(document: Json, *words: str) -> Json:
    """Return the plan of a command, whatever its exit status."""
    done = run(*words, "--json", "--verify-plan", stdin=as_bytes(document))
    assert done.stdout, done.stderr.decode()
    found: Json = json.loads(done.stdout)
    return found


def balance(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check a plan of `balance`: each state is legal, and no single move improves the last one.

    The bound in the plan must not exceed the lowest score of all placements.
    """
    rules, where = Rules(document), homes_of(document)
    mode = rng.choice(("off", "off", "no-worse", "no-new", "strict"))
    words = ["balance", f"--n1={mode}", "--min-gain=0"]
    words += ["--all-groups"] * (len(document["nodegroups"]) > 1)
    plan = planned(document, *words)
    before = None if mode == "off" else rules.losses(where)
    end = follow(rules, plan, mode, before)
    if len(document["nodegroups"]) > 1:
        return "moved" if plan["moves"] else "stayed"
    reached = rules.objective(end, sticky=True)
    assert plan["scores"]["after"] == pytest.approx(reached, abs=1e-7)
    for name, present in end.items() if mode == "off" else ():
        # `balance` does not exchange the roles of nodes with less than their reserve
        short = any(rules.free_disk(end, n)["lvm"] < rules.reserve(n) for n in present)
        ways = [present[::-1]] if template == "drbd" and not short else []
        roles = 1 if template == "drbd" else 0
        ways += [(*present[:roles], n) for n in rules.nodes if n not in present]
        for nodes in ways if template != "plain" else ():
            stays = rules.pinned(name) and nodes[0] != present[0]
            if not stays and not rules.obstacle(end, name, nodes):
                other = rules.objective({**end, name: nodes}, sticky=True)
                assert other > reached - GAIN, (name, present, nodes, reached, other)
    if template in ("rbd", "ext") and plan["bound"] is not None:
        every = rules.reachable(where, MOST_SCORED) or []
        lowest = min((rules.objective(one, sticky=True) for one in every), default=reached)
        assert plan["bound"] <= lowest + 1e-8, (plan["bound"], lowest)
    return "moved" if plan["moves"] else "stayed"


def squeeze(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that each state of a plan is legal, and that no more nodes are freed than moves can
    empty.
    """
    rules, where = Rules(document), homes_of(document)
    mode = rng.choice(("off", "off", "no-worse"))
    words = ["squeeze", f"--n1={mode}", "--target-resources=1", "--minimal-resources=0.5"]
    words += ["--drbd"] * (template == "drbd") + ["--optimal"] * (rng.random() < 0.5)
    plan = planned(document, *words)
    before = rules.losses(where) if mode == "no-worse" else None
    end = follow(rules, plan, mode)
    gone = set(plan["switched_nodes"]) if plan["action"] != "none" else set()
    assert not gone & {node for nodes in end.values() for node in nodes}, gone
    if gone:
        assert _short(rules, end, gone) == [], (gone, end)
        if before is not None:
            left = _without(rules, gone).losses(end)
            assert not grown(before, left), (gone, before, left)
    if template in ("rbd", "ext") and mode == "off":
        every = rules.reachable(where, MOST_STATES)
        if every is not None:
            most = max(_most_freed(rules, one) for one in every)
            assert len(gone) <= most
            if plan.get("bound") is not None:
                assert plan["bound"] >= most, (plan["bound"], most)
            if plan.get("proved"):
                assert len(gone) == most, (gone, most)
            if len(gone) < most:
                return "fewer"
    return "freed" if gone else "kept"


def _without(rules: Rules, gone: set[str]) -> Rules:
    """Return the rules of the cluster without the nodes of `gone`."""
    nodes = {name: raw for name, raw in rules.nodes.items() if name not in gone}
    return Rules({**rules.document, "nodes": nodes})


def _short(rules: Rules, where: Homes, gone: set[str]) -> list[str]:
    """Return the nodes that lack memory for the target instance of 300 MiB, beside those `gone`."""
    groups = {rules.group_of((node,)) for node in gone}
    return [
        node
        for node in rules.nodes
        if node not in gone
        and rules.group_of((node,)) in groups
        and rules.free_memory(where, node) <= 300
    ]


def _most_freed(rules: Rules, where: Homes) -> int:
    """Return how many nodes are empty in groups of which the other nodes have 300 MiB of memory."""
    empty = {n for n in rules.nodes if all(n not in nodes for nodes in where.values())}
    short = {rules.group_of((node,)) for node in _short(rules, where, empty)}
    freed = [node for node in empty if rules.group_of((node,)) not in short]
    return len(freed) - (len(freed) == len(rules.nodes))


def capacity(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that as many instances fit, one after the other in legal places, as nodes have
    slots.
    """
    disk, memory = rng.choice((200, 600, 1100)), rng.choice((500, 900, 1300))
    size_of = f"{disk},{memory},1"
    words = ["capacity", f"--standard-alloc={size_of}", f"--tiered-alloc={size_of}"]
    words.append(f"--disk-template={template}")
    strict = template != "drbd" and rng.random() < 0.4
    words += ["--accept-existing-errors"] if strict else ["--n1=off"]
    found = json_of(*words, document=document)["standard"]
    where: dict[str, tuple[str, ...]] = dict(homes_of(document))
    size = disk - METADATA * (template == "drbd")  # as in hspace, the size has the metadata
    one = {"memory": memory, "disk_template": template, "tags": [], "disks": [{"size": size}]}
    names = [each["instance"] for each in found["instances"]]
    rules = Rules(document, dict.fromkeys(["new", *names], one))
    most = sum(rules.slots(where, node, "new") for node in rules.nodes) if template != "drbd" else 0
    whole = not any(loss.instances for loss in rules.losses(where).values())
    for each in found["instances"]:
        nodes = tuple(each["nodes"])
        why = rules.obstacle(where, each["instance"], nodes)
        assert not why, (each, why)
        where[each["instance"]] = nodes
    if template != "drbd":
        assert len(names) == most if not strict else len(names) <= most, (names, most)
    if strict and names and whole and len(where) <= MOST_RESTARTED:
        assert all(rules.tolerates(where, node) for node in rules.nodes), names
    return "some" if names else "none"


def between_groups(rng: Random, kinds: Kinds, document: Json, template: str) -> str:
    """Check that each move between groups is legal, and that a plan violates no constraint in the
    end.
    """
    if len(document["nodegroups"]) == 1:
        return "empty"
    rules, where = Rules(document), homes_of(document)
    mode = rng.choice(("off", "no-worse", "strict", "no-new"))
    command = rng.choice(("balance-groups", "redistribute", "compress"))
    plan = planned(document, command, f"--n1={mode}")
    end = follow(rules, plan, "off")
    assert rules.separated(end) <= rules.separated(where)
    if mode == "no-worse":
        assert not grown(rules.losses(where), rules.losses(end)), (command, plan["moves"])
    return f"{command}: {'moved' if plan['moves'] else 'stayed'}"


QUESTIONS: dict[str, Callable[[Random, Kinds, Json, str], str]] = {
    "allocate": allocate,
    "allocate with n1": allocate_with_n1,
    "batch": batch,
    "evacuate": evacuate,
    "change group": change_group,
    "failures": failures,
    "balance": balance,
    "squeeze": squeeze,
    "between groups": between_groups,
    "capacity": capacity,
}
"""Name -> the function that asks and compares."""
