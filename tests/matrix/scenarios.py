"""Define the scenarios of the matrix: small clusters with one tested instance to place.

Every path places or moves the tested instance, which is called ``subject``. Without a feature it is
placed on the node ``best``, which is nearly empty. The node ``next`` is fuller, and is used if
``best`` is excluded. The node ``source`` is its initial node, too small for any other instance. The
node ``keeper`` is full, and has the other role of the tested instance. The node ``spare`` is for
pairs of nodes only, and fuller than ``next``. Each node has a plain instance ``at-NODE``, which is
never moved. Sizes are in MiB.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests import builders
from tests.builders import Json

SHARED, PLAIN, DRBD, PAIR = "shared", "plain", "drbd", "pair"
"""Kinds of tested instances: shared; with plain disks; drbd with a new secondary; drbd.

For the last kind, both nodes are chosen.
"""

TEMPLATES = {SHARED: "rbd", PLAIN: "plain", DRBD: "drbd", PAIR: "drbd"}

BEST, NEXT, SOURCE, KEEPER, SPARE = "best", "next", "source", "keeper", "spare"

MEMORY = {BEST: 32768, NEXT: 32768, SOURCE: 2560, KEEPER: 512, SPARE: 32768}
HELD = {BEST: 256, NEXT: 8192, SOURCE: 256, KEEPER: 112, SPARE: 12288}

FIGURES = (
    "total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk",
    "total_spindles", "free_spindles", "total_cpus", "reserved_cpus",
)  # fmt: skip
"""Fields that a node does not report if it cannot be queried."""


@dataclass
class Scenario:
    """A document in preparation, with the properties that a path requires.

    Attributes
    ----------
    document:
        The document; `finished` adds the amounts that nodes report.
    kind:
        The kind of the tested instance.
    options:
        The options of the command line.
    asleep:
        Whether nodes that are off, or without instances, report their size nevertheless.
    wanted:
        The tested instance if it is neither in the document nor in its request.
    """

    document: Json
    kind: str
    options: list[str] = field(default_factory=list)
    asleep: bool = False
    wanted: Json | None = None

    @property
    def role(self) -> int:
        """Return the index of the node that the path selects: 0 is the primary."""
        return 1 if self.kind == DRBD else 0

    @property
    def request(self) -> Json:
        """Return the request; {} if there is none."""
        found: Json = self.document.get("request", {})
        return found

    @property
    def subject(self) -> Json:
        """Return the instance to be placed or moved."""
        return self.instance("subject")

    def node(self, name: str) -> Json:
        """Return the node called `name` in the document."""
        found: Json = self.document["nodes"][name]
        return found

    def group_of(self, node: str) -> Json:
        """Return the group of a node."""
        found: Json = self.document["nodegroups"][self.node(node)["group"]]
        return found

    def instance(self, name: str) -> Json:
        """Return the instance `name`, which may be in the request or in the document."""
        if name == "subject" and self.wanted is not None:
            return self.wanted
        if self.request.get("name") == name and "memory" in self.request:
            return self.request
        for one in self.request.get("instances", ()):
            if isinstance(one, dict) and one["name"] == name:
                return one
        found: Json = self.document["instances"][name]
        return found

    def add(self, name: str, *nodes: str, **members: Any) -> Json:
        """Add another instance to the document, on shared storage by default."""
        members.setdefault("disk_template", "rbd")
        one = builders.instance(*nodes, **members)
        self.document["instances"][name] = one
        return one

    def tag(self, owner: Json | None, *tags: str) -> None:
        """Add tags to a node or an instance; to the cluster if `owner` is None."""
        if owner is None:
            self.document["cluster_tags"] += tags
        else:
            owner["tags"] = [*owner["tags"], *tags]

    def disable_n1(self) -> None:
        """Disable global N+1 if it could decide the placement."""
        self.options.append("--n1=off")

    def add_rival(self) -> Json:
        """Add an instance like the tested one to the request, before it, and return it."""
        rival = copy.deepcopy(self.subject)
        wanted = self.request.get("instances", [])
        if rival.get("nodes"):
            self.node(rival["nodes"][0])["total_memory"] += rival["memory"]
            self.document["instances"] = {"rival": rival} | self.document["instances"]
            wanted.insert(0, "rival")
        else:
            rival["name"] = "rival"
            wanted.insert(0, rival)
        return rival

    def finished(self) -> Json:
        """Set the free amounts that each node reports for its instances; return the document."""
        for name, node in self.document["nodes"].items():
            if not self.asleep and (node["offline"] or not node["vm_capable"]):
                for figure in FIGURES:
                    node.pop(figure, None)
            else:
                _report(node, name, self.document["instances"].values())
        return self.document


def _report(node: Json, name: str, instances: Any) -> None:
    """Set the amounts that `node` reports as free."""
    here = [one for one in instances if name in one["nodes"]]
    local = [one for one in here if one["disk_template"] in ("drbd", "plain")]
    running = [one for one in here if one["nodes"][0] == name and one["admin_state"] == "up"]
    spindles = sum(disk["spindles"] for one in local for disk in one["disks"])
    node["free_memory"] = node["total_memory"] - sum(one["memory"] for one in running)
    node["free_disk"] = node["total_disk"] - sum(one["disk_space_total"] for one in local)
    node["free_spindles"] = max(0, node["total_spindles"] - spindles)


def cluster_document(nodes: Sequence[str], groups: Sequence[str] = ()) -> Json:
    """Return a cluster of the named `nodes`, in one group or each in its entry of `groups`."""
    homes = dict(zip(nodes, groups or ["default"] * len(nodes), strict=True))
    document = builders.cluster(nodes=0)
    document["nodegroups"] = {f"uuid-{g}": builders.group(g) for g in dict.fromkeys(homes.values())}
    for name, home in homes.items():
        document["nodes"][name] = builders.node(home, memory=MEMORY[name])
        document["instances"][f"at-{name}"] = builders.instance(
            name, disk_template="plain", memory=HELD[name], disk=HELD[name]
        )
    return document


def newcomer(kind: str, **members: Any) -> Json:
    """Return the description of the tested instance as a new instance."""
    request: Json = builders.allocate({}, "subject", disk_template=TEMPLATES[kind], **members)[
        "request"
    ]
    return request


def resident(scenario: Scenario, home: str = SOURCE) -> None:
    """Place the tested instance on `home`; if it is drbd, also on `keeper`, in the other role."""
    kind = scenario.kind
    nodes = {DRBD: (KEEPER, home), PAIR: (home, KEEPER)}.get(kind, (home,))
    scenario.add("subject", *nodes, disk_template=TEMPLATES[kind], memory=512)
    if kind == DRBD:
        scenario.node(KEEPER)["total_memory"] += 512
