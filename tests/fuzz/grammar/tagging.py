"""Generate tags by their grammar: valid ones that interact, and slightly wrong ones."""

from __future__ import annotations

from random import Random

from tests.builders import Json

__all__ = ["decorate", "mangled", "tag"]


PREFIX = "iallocator:"

RULES: dict[str, tuple[str, ...]] = {
    "instance": (
        "colocate:must:@name", "colocate:should:@name:@weight", "separate:must:@name",
        "separate:should:@name", "separate:must:@name:@domain",
        "separate:should:@name:@domain:@weight", "order:after:@instance",
        "order:should-after:@instance", "priority:@int", "keep-running",
        "cannot-stop", "no-force-stop", "stickiness:@score", "score:@node:@score",
        "score:@score", "utilization:@resource:@int", "key:@name:@int:@int",
        "syskey:@name:@int:@int", "specialkey:@special:@unit:@int", "pool:@pooltype:@pool",
    ),
    "node": (
        "maintenance", "score:@score", "utilization:@resource:@int", "key:@name:@int:@int",
        "stickykey:@name:@int:@int", "ram-contention:@weight", "cpu-contention:@weight",
        "pool:@pooltype:@pool",
    ),
    "group": (
        "n1:@n1", "strategy:@strategy", "top:@int", "ignore-soft-errors:@yes", "time-limit:1",
        "exact-search:@yes", "inter-group:@yes", "stickiness:@score", "pool:@pooltype:@pool",
        "key:@name:@int:@int", "stickykey:@name:@int:@int",
    ),
    "cluster": (
        "n1:@n1", "strategy:@strategy", "key:@name:@int:@int", "syskey:@name:@int:@int",
        "specialkey:@special:@unit:@int", "top:@int", "exact-search:@yes", "seed:@int",
    ),
}  # fmt: skip
"""Type of object -> grammar of this program's tags.

``@word`` stands for a random entry of `WORDS`.
"""

HTOOLS = {
    "instance": ("srv:@name", "@domain:@pool", "ganeti:watcher:autorepair:@repair",
                 "ganeti:watcher:autorepair:suspend:@int",
                 "ganeti:watcher:autorepair:pending:@repair:id@int:@int:@int+@int",
                 "ganeti:watcher:autorepair:result:@repair:id@int:@int:@result:@int"),
    "node": ("@domain:@pool", "htools:standby:auto", "htools:standby:priority:@int", "cpu:@pool"),
    "group": ("@domain:@pool", "ganeti:watcher:autorepair:@repair"),
    "cluster": ("htools:iextags:srv", "htools:nlocation:@domain", "htools:desiredlocation:@domain",
                "htools:migration:cpu", "htools:allowmigration:cpu:@pool::cpu:@pool",
                "ganeti:watcher:autorepair:@repair"),
}  # fmt: skip

WORDS = {
    "name": ("a", "b", "web", "i0"),
    "domain": ("rack", "power", "srv"),
    "instance": ("i0", "i1", "i2", "i3", "new", "new0", "gone"),
    "node": ("n0", "n1", "n9", "#uname"),
    "weight": ("1", "0.5", "0", "1e-9", "100", "9007199254740992", "1e15"),
    "int": ("0", "1", "5", "100", "-1", "9007199254740991", "-9007199254740992"),
    "unit": ("0", "1", "0.5"),
    "score": ("0", "5", "-5", "INFINITY", "-INFINITY", "+INFINITY", "1000000", "999999"),
    "resource": ("memory", "cpu", "disk", "gpu"),
    "special": ("ram", "cpu", "load"),
    "pooltype": ("internal", "external"),
    "pool": ("x", "y", "lvm", "rbd"),
    "n1": ("strict", "no-worse", "no-new", "off"),
    "strategy": ("score", "affinity", "lost-allocations", "minimal", "balanced", "utilization"),
    "yes": ("yes", "no"),
    "repair": ("fix-storage", "migrate", "failover", "reinstall"),
    "result": ("success", "failure", "enoperm"),
}


def tag(rng: Random, owner: str, htools: bool = False) -> str:
    """Return a random tag for an object of type `owner`, by its grammar."""
    rule = rng.choice((HTOOLS if htools else RULES)[owner])
    parts = rule.split("@")
    made = parts[0]
    for part in parts[1:]:
        word = next(word for word in sorted(WORDS, key=len, reverse=True) if part.startswith(word))
        made += rng.choice(WORDS[word]) + part[len(word) :]
    return made if htools else PREFIX + made


def mangled(rng: Random, text: str) -> str:
    """Return the tag `text` with one mistake of grammar."""
    parts = text.split(":")
    at = rng.randrange(len(parts))
    kind = rng.randrange(9)
    if kind == 0:
        del parts[at]
    elif kind == 1:
        parts.insert(at, parts[at])
    elif kind == 2:
        parts[at] = ""
    elif kind == 3:
        parts[at] = parts[at].swapcase()
    elif kind == 4:
        parts[at] += rng.choice(("\u00a0", " ", "\t", "٣", "\u0660", "_", "e5", ".0", "é"))
    elif kind == 5:
        parts[at] = rng.choice(sum(WORDS.values(), ()))
    elif kind == 6:
        parts[at] = rng.choice(("1_000", "٣", "+1", "0x10", "1e5", " 1", "²", "-0", "00", "1e999"))
    elif kind == 7:
        rng.shuffle(parts)
    else:
        parts = [*parts, *parts[at:]] * rng.choice((1, 2, 40))
    return ":".join(parts)


def decorate(rng: Random, document: Json, features: set[str]) -> None:
    """Add tags to all objects that can have tags."""
    kinds = [htools for htools in (False, True) if ("htools" if htools else "tags") in features]
    density = rng.choice((1, 1, 2, 4))
    for owner, name in (("node", "nodes"), ("instance", "instances"), ("group", "nodegroups")):
        for one in document[name].values():
            if "tags" in one:
                many = range(rng.randint(0, density))
                one["tags"] = [tag(rng, owner, rng.choice(kinds or [False])) for _ in many]
    for one in (document["request"], *document["request"].get("instances", ())):
        if isinstance(one, dict) and "tags" in one:
            one["tags"] = [
                tag(rng, "instance", rng.choice(kinds or [False])) for _ in range(density)
            ]
    if True in kinds:
        document["cluster_tags"] = [tag(rng, "cluster", True) for _ in range(density)]
    if rng.random() < 0.3:
        document["cluster_tags"] += [tag(rng, "cluster")]
    if "keys" in features:
        _keys(rng, document)


def _keys(rng: Random, document: Json) -> None:
    """Add equal placement keys to all objects, so that they are compared."""
    document["cluster_tags"] += [f"{PREFIX}specialkey:ram:0:60", f"{PREFIX}key:a:5:9"]
    for one in document["nodes"].values():
        one["tags"] = [
            *one.get("tags", ()),
            f"{PREFIX}key:a:{rng.randint(0, 9)}:{rng.randint(1, 9)}",
        ]
    document["request"]["placement_keys"] = rng.choice(
        (
            [],
            None,
            [{"class": "customer", "name": "a", "value": 1, "weight": 2}],
            [{"class": "special", "name": "ram", "value": 0, "weight": 60}],
            [{"class": "customer", "name": "a", "value": -1e15, "weight": 1e15}] * 2,
        )
    )
