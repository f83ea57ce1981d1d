"""Generate clusters for capacity as text files, and the options of the runs."""

from __future__ import annotations

import random

__all__ = ["cluster", "odd", "options"]

DEFAULT = (
    "128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12"
    "|diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext,gluster|4.0|32.0"
)
TEMPLATES = ("drbd", "plain", "rbd", "sharedfile", "file", "diskless", "ext")


def _policy(chance: random.Random) -> str:
    """Return a random policy for a text file, without the name of its group.

    Half are the default.
    """
    if chance.random() < 0.5:
        return DEFAULT
    standard = (
        f"{chance.choice((512, 1024))},{chance.choice((1, 2))},{chance.choice((2048, 10240))}"
    )
    high = f"{chance.choice((3000, 8192))},{chance.choice((2, 4))},{chance.choice((30000, 51200))}"
    more = chance.choice(("", ";2048,1,1024,1,1,1;16384,4,204800,2,1,3"))
    ratios = f"{chance.choice((0.5, 2.0, 4.0))}|{chance.choice((1.0, 32.0))}"
    sizes = f"128,1,1024,1,1,1;{high},4,2,4{more}"
    return f"{standard},1,1,1|{sizes}|drbd,plain,rbd,file,sharedfile,diskless|{ratios}"


class _Node:
    def __init__(self, chance: random.Random, name: str, memory: int, disk: int) -> None:
        self.name = name
        self.memory = chance.choice((memory, memory, memory + 2048))
        self.own = chance.choice((0, 256, 512))
        self.disk = disk
        self.offline = chance.random() < 0.05
        self.used = self.stored = 0
        self.peers: dict[str, int] = {}

    def takes(self, memory: int, disk: int) -> bool:
        fits = self.used + memory + self.own + 300 < self.memory
        return fits and self.stored + disk + 1000 < self.disk and not self.offline


def _instances(chance: random.Random, nodes: list[_Node]) -> list[str]:
    """Return lines of random instances that keep each node of `nodes` N+1 compliant."""
    lines = []
    for number in range(chance.randrange(3 * len(nodes))):
        primary, secondary = chance.sample(nodes, 2)
        template = chance.choice(("drbd", "drbd", "plain", "rbd"))
        memory, disk = chance.choice((256, 512, 1024)), chance.choice((1024, 5120))
        if not primary.takes(memory, disk):
            continue
        if template == "drbd":
            reserved = secondary.peers.get(primary.name, 0) + memory
            if not secondary.takes(reserved, disk):
                continue
            secondary.peers[primary.name] = reserved
            secondary.stored += disk
        primary.used += memory
        primary.stored += disk if template in ("drbd", "plain") else 0
        second = secondary.name if template == "drbd" else ""
        lines.append(
            f"{primary.name}-{number}|{memory}|{disk}|{chance.choice((1, 2))}|running|Y"
            f"|{primary.name}|{second}|{template}||1"
        )
    for node in nodes:  # later instances may have used the memory that failovers need
        if node.peers and node.memory - node.own - node.used <= max(node.peers.values()) + 200:
            return []
    return lines


def cluster(seed: int) -> str:
    """Return a cluster of one to three groups in htools' text format."""
    chance = random.Random(seed)
    groups, lines, held = [], [], []
    whole = _policy(chance)
    policies = [f"|{whole}"]
    for group in range(chance.choice((1, 1, 2, 3))):
        alloc = chance.choice(("preferred", "preferred", "last_resort", "unallocable"))
        groups.append(f"g{group}|u{group}|{alloc if group else 'preferred'}||")
        policies.append(f"g{group}|{whole if chance.random() < 0.5 else _policy(chance)}")
        memory, disk = chance.choice((4096, 8192)), chance.choice((51200, 102400))
        cpus, spindles = chance.choice((2, 4, 8)), chance.choice((1, 4))
        nodes = [_Node(chance, f"g{group}n{k}", memory, disk) for k in range(chance.randint(2, 4))]
        chance.shuffle(nodes)
        instances = _instances(chance, nodes)
        for node in nodes:
            used, stored = (node.used, node.stored) if instances else (0, 0)
            lines.append(
                f"{node.name}|{node.memory}|{node.own}|{node.memory - node.own - used}|{node.disk}"
                f"|{node.disk - stored}|{cpus}|{'Y' if node.offline else 'N'}|u{group}|{spindles}"
            )
        held += instances
    return "\n".join(
        "".join(f"{x}\n" for x in part) for part in (groups, lines, held, [], policies)
    )


def options(seed: int) -> list[str]:
    """Return random options of `capacity`: disk template, sizes to count, and some limits."""
    chance = random.Random(-seed)
    words = [f"--disk-template={chance.choice(TEMPLATES)}"]
    words.append(f"--standard-alloc={chance.choice(('2g,512,1', '10g,1g,2', '5g,2g,1,2'))}")
    words.append(f"--tiered-alloc={chance.choice(('20g,4g,4', '10g,2g,2,2', '30g,3g,2'))}")
    extra = ("--accept-existing-errors", "--independent-groups", "--no-capacity-checks",
             "--max-cpu=2.5", "--min-disk=0.25", "--spindle-use=2")  # fmt: skip
    return [*words, *(word for word in extra if chance.random() < 0.15)]


INTERVALS = (
    "128,1,1024,1,1,1;1000,1,2048,1,2,4", "2048,2,10240,1,1,1;4096,4,51200,2,4,4",
    "5000,1,1024,1,1,1;6000,2,20480,2,2,4", "512,1,4096,1,1,1;3000,2,30720,1,2,4",
)  # fmt: skip


def odd(seed: int) -> tuple[str, list[str]]:
    """Return a cluster with several policy intervals and odd free memory as text, and options.

    The policies of cluster and groups have up to four intervals in any order. Nodes report more or
    less free memory than their instances leave. Some nodes with instances are offline.
    """
    chance = random.Random(seed)

    def policy(least: int) -> str:
        chosen = ";".join(chance.sample(INTERVALS, chance.randint(least, len(INTERVALS))))
        ratio = chance.choice((1.0, 4.0))
        return f"512,1,2048,1,1,1|{chosen}|plain,drbd,rbd,diskless|{ratio}|32.0"

    groups, nodes, held, policies = [], [], [], [f"|{policy(2)}"]
    for group in range(chance.choice((1, 1, 2))):
        groups.append(f"g{group}|u{group}|preferred||")
        policies.append(f"g{group}|{policy(1)}")
        for k in range(chance.randint(2, 4)):
            name, used, stored = f"g{group}n{k}", 0, 0
            for number in range(chance.choice((0, 0, 1, 2))):
                memory, state = chance.choice((300, 600)), chance.choice(("running", "ADMIN_down"))
                used, stored = used + memory * (state == "running"), stored + 3000
                held.append(f"{name}-{number}|{memory}|3000|1|{state}|Y|{name}||plain||1")
            free = 8192 - 256 - used + chance.choice((0, 0, -700, 900))
            offline = "Y" if chance.random() < 0.2 else "N"
            nodes.append(f"{name}|8192|256|{free}|102400|{102400 - stored}|4|{offline}|u{group}|4")
    words = [f"--disk-template={chance.choice(('plain', 'drbd', 'rbd', 'diskless'))}"]
    if chance.random() < 0.3:
        words.append("--no-capacity-checks")
    return "\n".join(
        "".join(f"{x}\n" for x in part) for part in (groups, nodes, held, [], policies)
    ), words
