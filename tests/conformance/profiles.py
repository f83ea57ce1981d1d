"""Draw the properties of the cluster of a generated document from the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

DRBD = ("drbd",)
SHARED = ("sharedfile", "rbd", "ext", "gluster", "blockdev", "diskless")
LOCAL = ("plain", "file")
EVERY = DRBD + SHARED + LOCAL

# Kinds that are often satisfied even on a nearly full cluster.
NEARLY_FULL = ("allocate", "relocate", "node-evacuate")
FILL = (0.0, 0.1, 0.15, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.7)

KINDS = (
    "allocate",
    "multi-allocate",
    "allocate-secondary",
    "relocate",
    "node-evacuate",
    "change-group",
)


@dataclass(frozen=True)
class Profile:
    """The properties of a generated cluster: each field is a fact or a probability.

    Attributes
    ----------
    groups
        Number of node groups.
    nodes
        Fewest and most nodes of a group.
    templates
        Disk templates of the instances; a template that is listed twice is drawn twice as often.
    fill
        Share of a node's memory that primaries may take, 0 to 1.
    disk, cpu
        Size of disks and number of processors as a factor; with 1, they are never short.
    measured
        Whether the nodes report the sizes of their disks.
    exclusive
        Where storage is exclusive: `none`, `all`, `groups` or `nodes`.
    kvm
        Whether kvm is the first enabled hypervisor (node memory is then static).
    drift
        Difference of reported free memory and disk from what the instances leave: `none`, `less`,
        `more` or `both`.
    unwell
        Probability that a node is offline, drained or not vm_capable.
    down, forthcoming, unbalanced
        Probabilities that an instance is down, forthcoming, not auto-balanced.
    exclusion, locations, desired, migration
        Whether tags of that kind are in use.
    networks
        Whether groups are connected to some networks only.
    intervals
        Number of `minmax` intervals of a policy.
    tight_ratios
        Whether the vcpu and spindle ratios are nearly reached.
    picky
        Probability that a group's policy forbids some disk templates.
    shuffled
        Whether names are not sorted in the document.
    heterogeneous
        Whether nodes differ in size.
    unsized
        Probability that a disk on exclusive storage does not state its spindles.
    deserted
        Probability that a secondary may be on a node that is offline, drained or not vm_capable.
    named
        Probability that the request for a new instance names a group.
    drained
        Probability that all nodes of a group are drained.
    telling
        Probability that a node that cannot be queried has amounts nevertheless.
    """

    groups: int
    nodes: tuple[int, int]
    templates: tuple[str, ...]
    fill: float
    disk: float
    cpu: float
    measured: bool
    exclusive: str
    kvm: bool
    drift: str
    unwell: float
    down: float
    forthcoming: float
    unbalanced: float
    exclusion: bool
    locations: bool
    desired: bool
    migration: bool
    networks: bool
    intervals: int
    tight_ratios: bool
    picky: float
    shuffled: bool
    heterogeneous: bool
    unsized: float = 0.01
    deserted: float = 0.02
    named: float = 0.3
    drained: float = 0.0
    telling: float = 0.0


def draw(rng: Random, kind: str) -> Profile:
    """Return a random profile that suits a request of `kind`."""
    nearly_full = kind in NEARLY_FULL
    groups, nodes = _shape(rng, kind)
    templates = _templates(rng, kind)
    return Profile(
        groups=groups,
        nodes=nodes,
        templates=templates,
        fill=rng.choice(FILL if nearly_full else FILL[:-3]),
        disk=rng.choice((1.0, 1.0, 1.0, 1.0, 0.5, 0.25) if nearly_full else (1.5, 1.0, 1.0, 0.5)),
        cpu=rng.choice((1.0, 1.0, 1.0, 0.5, 0.3)),
        measured=_measured(rng, templates),
        exclusive=rng.choice(("none",) * 9 + ("all", "groups", "nodes")),
        kvm=rng.random() < 0.4,
        drift=rng.choice(("none", "none", "less", "more", "both")),
        unwell=rng.choice((0.0, 0.0, 0.0, 0.1, 0.2) if nearly_full else (0.0, 0.0, 0.0, 0.0, 0.1)),
        down=rng.choice((0.0, 0.1, 0.3)),
        forthcoming=rng.choice((0.0, 0.0, 0.1, 0.25)),
        unbalanced=0.15 if rng.random() < 0.04 else 0.0,
        exclusion=rng.random() < (0.25 if nearly_full else 0.15),
        locations=rng.random() < 0.25,
        desired=rng.random() < 0.2,
        migration=rng.random() < (0.12 if nearly_full else 0.08),
        networks=rng.random() < 0.2,
        intervals=rng.choice((1, 1, 2, 3) if nearly_full else (1, 1, 1, 1, 2, 3)),
        tight_ratios=rng.random() < (0.2 if nearly_full else 0.1),
        picky=rng.choice((0.0, 0.0, 0.0, 0.0, 0.3)),
        shuffled=rng.random() < 0.6,
        heterogeneous=rng.random() < 0.6,
    )


def odd(rng: Random, profile: Profile) -> Profile:
    """Return `profile` with more of the properties that are rare in other documents."""
    return replace(
        profile,
        exclusive=rng.choice(("none", "none", "all", "groups", "nodes", "nodes")),
        measured=True,
        fill=rng.choice((0.2, 0.3, 0.4, 0.5, 0.7)),
        unwell=rng.choice((0.0, 0.1, 0.3)),
        down=rng.choice((0.0, 0.1, 0.5)),
        forthcoming=rng.choice((0.0, 0.0, 0.0, 0.2)),
        unsized=rng.choice((0.1, 0.5)),
        deserted=rng.choice((0.05, 0.5)),
        named=0.6,
        drained=0.1,
        telling=0.2,
    )


def _shape(rng: Random, kind: str) -> tuple[int, tuple[int, int]]:
    """Return random numbers of groups and nodes, mostly small.

    The time of hail's N+1 test grows with the cube of the nodes.
    """
    fewest_groups = 2 if kind == "change-group" else 1
    groups = max(fewest_groups, rng.choice((1, 1, 2, 2, 2, 3)))
    roll = rng.random()
    if roll < 0.04:
        return fewest_groups, (13, 20)
    if roll < 0.20:
        return min(groups, 2), (4, 12)
    smallest = (1, 3) if kind in NEARLY_FULL else (2, 3)
    return groups, rng.choice((smallest, (2, 4), (2, 5), (3, 5), (3, 6), (3, 6)))


def _templates(rng: Random, kind: str) -> tuple[str, ...]:
    """Return the random disk templates of the cluster."""
    shared = rng.choice(SHARED)
    scenarios = {
        "drbd": DRBD,
        "shared": (shared,),
        "plain": ("plain",),
        "local": LOCAL,
        "mirrored": (*DRBD, shared),
        "shared mix": tuple(rng.sample(SHARED, 3)),
        "drbd and plain": ("drbd", "drbd", "plain"),
        "everything": EVERY + DRBD * 3,
    }
    names = ["drbd", "drbd", "shared", "mirrored", "drbd and plain", "everything"]
    if kind in ("allocate", "multi-allocate"):
        names += ["plain", "local", "shared mix"]
    if kind == "allocate-secondary":
        names = ["plain", "drbd and plain", "drbd and plain", "everything"]
    return scenarios[rng.choice(names)]


def _measured(rng: Random, templates: tuple[str, ...]) -> bool:
    """Return at random whether disks are reported; without drbd or plain, mostly not."""
    if {"drbd", "plain"} & set(templates):
        return rng.random() < 0.97
    return rng.random() < 0.4
