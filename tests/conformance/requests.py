"""Generate the `request` of a document, with one function for each type."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

from tests.builders import Json

from .instances import break_down, description
from .profiles import DRBD, EVERY, LOCAL, SHARED, Profile

MOVABLE = DRBD + SHARED


def newcomer(rng: Random, profile: Profile, name: str) -> Json:
    """Return the random description of a new instance."""
    template = rng.choice(profile.templates)
    return {
        "name": name,
        **description(rng, profile, template, wild=0.05),
        "required_nodes": 2 if template == "drbd" else 1,
        "group_name": None,
    }


def allocate(rng: Random, profile: Profile, document: Json) -> Json:
    """Return a request for one new instance, sometimes restricted to a group or nodes."""
    request = newcomer(rng, profile, "newcomer")
    if rng.random() < profile.named:
        request["group_name"] = rng.choice(list(document["nodegroups"].values()))["name"]
    if rng.random() < 0.15:
        names = list(document["nodes"])
        request["restrict-to-nodes"] = rng.sample(names, rng.randint(1, len(names)))
    return request


def multi_allocate(rng: Random, profile: Profile, document: Json) -> Json:
    """Return a request for several new instances; few name a group, which hail ignores."""
    batch = [newcomer(rng, profile, f"newcomer{n}") for n in range(1, rng.randint(1, 6) + 1)]
    for one in batch:
        if rng.random() < 0.005:
            one["group_name"] = rng.choice(list(document["nodegroups"].values()))["name"]
    return {"instances": batch}


def allocate_secondary(rng: Random, profile: Profile, document: Json) -> Json | None:
    """Return a request to add a secondary to a plain instance."""
    names = using_templates(document, ("plain",))
    return {"name": rng.choice(names)} if names else None


def relocate(rng: Random, profile: Profile, document: Json) -> Json | None:
    """Return a request to move an instance off its secondary, or off its primary."""
    templates = MOVABLE if rng.random() < 0.97 else LOCAL
    names = using_templates(document, templates)
    if not names:
        return None
    name = rng.choice(names)
    instance = document["instances"][name]
    return {
        "name": name,
        "disk_space_total": instance["disk_space_total"],
        "required_nodes": 1,
        "relocate_from": instance["nodes"][-1:],
    }


def node_evacuate(rng: Random, profile: Profile, document: Json) -> Json | None:
    """Return a request to evacuate instances of one or two nodes, which may have failed."""
    mode = rng.choice(("primary-only", "primary-only", "secondary-only", "all"))
    evacuated = _evacuated(rng, document)
    names = [
        name
        for name, instance in document["instances"].items()
        if set(_places(instance, mode)) & set(evacuated)
    ]
    if rng.random() < 0.6:
        names = [name for name in names if document["instances"][name]["disk_template"] in MOVABLE]
    if not names:
        return None
    if rng.random() < 0.25:
        break_down(rng, document["nodes"][evacuated[0]])
    return {"instances": rng.sample(names, min(len(names), 6)), "evac_mode": mode}


def _evacuated(rng: Random, document: Json) -> list[str]:
    """Return the names of one node, or of two nodes of one group."""
    first = rng.choice(list(document["nodes"]))
    group = document["nodes"][first]["group"]
    peers = [n for n, node in document["nodes"].items() if n != first and node["group"] == group]
    if len(peers) < 3 or rng.random() < 0.8:
        return [first]
    return [first, rng.choice(peers)]


def _places(instance: Json, mode: str) -> list[str]:
    """Return the nodes of `instance` in the roles that an evacuation with `mode` concerns."""
    places: list[str] = instance["nodes"]
    return {"primary-only": places[:1], "secondary-only": places[1:]}.get(mode, places)


def change_group(rng: Random, profile: Profile, document: Json) -> Json | None:
    """Return a request to move some instances to other groups."""
    templates = MOVABLE if rng.random() < 0.9 else EVERY
    names = using_templates(document, templates)
    if not names:
        return None
    home = group_of(document, rng.choice(names))
    if rng.random() < 0.92:
        names = [name for name in names if group_of(document, name) == home]
    others = [uuid for uuid in document["nodegroups"] if uuid != home]
    targets = rng.choice(([], others, rng.sample(others, 1)))
    chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3, 5))))
    return {"instances": chosen, "target_groups": targets}


def using_templates(document: Json, templates: Collection[str]) -> list[str]:
    """Return the names of the instances with one of `templates`."""
    return [n for n, i in document["instances"].items() if i["disk_template"] in templates]


def group_of(document: Json, instance: str) -> str:
    """Return the uuid of the group of an instance's primary."""
    primary = document["instances"][instance]["nodes"][0]
    return str(document["nodes"][primary]["group"])


Builder = Callable[[Random, Profile, Json], Json | None]

# A builder returns None where the cluster holds nothing to ask about.
BUILDERS: dict[str, Builder] = {
    "allocate": allocate,
    "multi-allocate": multi_allocate,
    "allocate-secondary": allocate_secondary,
    "relocate": relocate,
    "node-evacuate": node_evacuate,
    "change-group": change_group,
}
