"""The lines of policies: ``GROUP|STANDARD|MIN;MAX;...|TEMPLATES|VCPU RATIO|SPINDLE RATIO``.

A size is ``MEMORY,CPUS,DISK,DISKS,NICS,SPINDLES`` (MiB); the line without a group's
name is the policy of the cluster.
"""

from __future__ import annotations

from iallocator.model.policy import ALL_TEMPLATES, Interval, Policy, Spec
from iallocator.sources.lines import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.sources.lines import Line

__all__ = ["default_policy", "policy_line", "read_policies"]

PARTS = ("memory", "cpus", "disk", "disks", "nics", "spindles")
"""The parts of a size, in their order."""

DEFAULT_TEMPLATES = (
    "diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster",
)  # fmt: skip
"""Templates of a policy that the file does not have, in the order in which they are tried."""


def default_policy() -> Policy:
    """The policy of groups of which the file says nothing."""
    return Policy(templates=DEFAULT_TEMPLATES)


def read_policies(lines: Sequence[Line]) -> dict[str, tuple[Policy, Line]]:
    """Name of a group, "" for the cluster -> its policy and the line; the last one counts."""
    found: dict[str, tuple[Policy, Line]] = {}
    for line in lines:
        policy = Policy(
            _intervals(line),
            _spec(line, "standard size", line.text(1)),
            _templates(line),
            line.factor_of(4, "vcpu ratio", 0),
            line.factor_of(5, "spindle ratio", 0),
        )
        found[line.text(0)] = policy, line
    return found


def _intervals(line: Line) -> list[Interval]:
    texts = line.text(2).split(";")
    if len(texts) % 2:
        line.fail("sizes", f"expected pairs of minimum and maximum, got {len(texts)} sizes")
    specs = [_spec(line, "size", text) for text in texts]
    return [Interval(low, high) for low, high in zip(specs[::2], specs[1::2])]


def _spec(line: Line, what: str, text: str) -> Spec:
    numbers = [number for part in text.split(",") if (number := whole(part)) is not None]
    if len(numbers) != len(PARTS) or len(text.split(",")) != len(PARTS):
        line.fail(what, f"expected {','.join(PARTS)}, got {text!r}")
    memory, cpus, disk, disks, nics, spindles = numbers
    return Spec(memory, cpus, disk, disks, nics, spindles)


def _templates(line: Line) -> list[str]:
    templates = line.names(3)
    for template in templates:
        if template not in ALL_TEMPLATES:
            line.fail(
                "disk templates", f"expected names out of {', '.join(ALL_TEMPLATES)}, "
                f"got {template!r}",
            )  # fmt: skip
    return templates


def policy_line(name: str, policy: Policy) -> str:
    """The line of the group called `name`, "" for the cluster."""
    bounds = [bound for pair in policy.intervals for bound in (pair.low, pair.high)]
    return "|".join(
        (
            name,
            _spec_text(policy.standard),
            ";".join(map(_spec_text, bounds)),
            ",".join(policy.templates),
            str(float(policy.vcpu_ratio)),
            str(float(policy.spindle_ratio)),
        )
    )


def _spec_text(spec: Spec) -> str:
    return ",".join(str(getattr(spec, part)) for part in PARTS)
