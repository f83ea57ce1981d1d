"""What an evaluator asks of which nodes, as a trace hears it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.rejection import Rejection
    from iallocator.model.instance import Instance
    from iallocator.placement.motions import Motion


__all__ = ["Question"]


class Question:
    """Nodes are asked to take `instance`, which is off the state.

    Attributes
    ----------
    kind:
        The way that it comes there: ``new``, ``moved``, ``mirror``, ``pair``, ``exchange``.
    present:
        Where it is, if it moves; primary first.
    primaries, secondaries:
        Who is asked in which role.
    rejections, mirrors:
        Which of them are out, and why, before their own limits count.
    motion:
        Which limits count.
    answer:
        What is in the way of exchanging roles, where that is all that is asked.
    """

    __slots__ = (
        "answer", "instance", "kind", "mirrors", "motion", "present", "primaries", "rejections",
        "secondaries",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        instance: Instance,
        present: Nodes,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        rejections: Mapping[int, str],
        mirrors: Mapping[int, str],
        motion: Motion,
    ) -> None:
        self.kind = kind
        self.instance = instance
        self.present = present
        self.primaries = primaries
        self.secondaries = secondaries
        self.rejections = rejections
        self.mirrors = mirrors
        self.motion = motion
        self.answer: Rejection | None = None
