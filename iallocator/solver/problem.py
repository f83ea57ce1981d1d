"""What an exact search decides: a choice for every member of every kind, within bounds.

Members of a kind are interchangeable (instances of one size that may go to the same
places); only how many of them take a choice matters.  That is what keeps a batch of
equal instances from being tried in every order.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Row = tuple[Any, ...]
    """Names something that is used up, e.g. ``("memory", 3)``."""

__all__ = [
    "FOUND", "IMPOSSIBLE", "LEFT_OUT", "TIME_OUT", "UNAVAILABLE", "Answer", "Choice", "Kind",
    "Problem",
]  # fmt: skip

FOUND = "found"
IMPOSSIBLE = "impossible"
TIME_OUT = "time out"
UNAVAILABLE = "unavailable"

INFINITY = float("inf")

LEFT_OUT = -1
"""In the place of a choice: the member has none."""


class Choice:
    """One way to settle a member of a kind.

    ``value`` is what the caller wants back, of any hashable type; ``cost`` what it adds to
    the sum that is made small; ``uses`` the amounts it takes, by row.
    """

    __slots__ = ("cost", "uses", "value")

    def __init__(self, value: Any, cost: float, uses: Mapping[Row, float]) -> None:
        self.value = value
        self.cost = cost
        self.uses = uses


class Kind:
    """Interchangeable members, and the choices that each of them has.

    Attributes
    ----------
    penalty:
        The cost of leaving a member out; None: none may be left out.
    remains:
        What one that is left out uses, by row: it stays where it is.
    priority:
        Where not all can have a choice, the members of a higher one come first.
    """

    __slots__ = ("choices", "members", "penalty", "priority", "remains")

    def __init__(
        self,
        members: Sequence[str],
        choices: Sequence[Choice],
        penalty: float | None = None,
        priority: int = 0,
        remains: Mapping[Row, float] | None = None,
    ) -> None:
        self.members = members
        self.choices = choices
        self.penalty = penalty
        self.priority = priority
        self.remains = remains or {}


class Problem:
    """Kinds with their choices, bounds of what these use, and answers already ruled out.

    Attributes
    ----------
    bounds:
        Row -> (lowest, highest) sum of what the choices taken use of it.  Rows that
        are used but not bounded do not matter.
    free:
        Amounts without a choice behind them: (lowest, highest, uses by row), e.g. the
        memory that a node keeps free, which is a maximum.
    cuts:
        Sets of choices that must not all be taken: (kind, choice) -> so often or more;
        choice `LEFT_OUT` is none.
    """

    __slots__ = ("bounds", "cuts", "free", "kinds")

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.bounds: dict[Row, tuple[float, float]] = {}
        self.free: list[tuple[float, float, Mapping[Row, float]]] = []
        self.cuts: list[dict[tuple[int, int], int]] = []

    def at_most(self, row: Row, highest: float) -> None:
        """Let the choices taken use no more than `highest` of `row`."""
        lowest, present = self.bounds.get(row, (-INFINITY, INFINITY))
        self.bounds[row] = (lowest, min(present, highest))

    def exactly(self, row: Row, amount: float) -> None:
        """Let the choices taken use exactly `amount` of `row`."""
        self.bounds[row] = (amount, amount)

    def add_amount(self, lowest: float, uses: Mapping[Row, float]) -> None:
        """Add an amount of at least `lowest` that no choice decides, with what one of it uses."""
        self.free.append((lowest, INFINITY, uses))

    def add_relaxable(self, name: str, rows: Iterable[Row], highest: float, penalty: float) -> None:
        """Let the choices use at most `highest` of each of `rows`, or one more at a `penalty`."""
        relaxed = dict.fromkeys(rows, -1.0)
        choices = [Choice("kept", 0.0, {}), Choice("broken", penalty, relaxed)]
        self.kinds.append(Kind([name], choices))
        self.bounds |= dict.fromkeys(rows, (-INFINITY, highest))

    @property
    def size(self) -> int:
        """Number of choices over all kinds."""
        return sum(len(kind.choices) for kind in self.kinds)


class Answer:
    """What came of a search.

    Attributes
    ----------
    status:
        `FOUND`; `IMPOSSIBLE`: proved; `TIME_OUT`: not known, the budget is spent;
        `UNAVAILABLE`: no solver.
    taken:
        (kind, choice) -> how many members take it; empty unless found.
    proved:
        Whether no answer costs less (within the gap that was asked for).
    """

    __slots__ = ("proved", "status", "taken")

    def __init__(
        self, status: str, taken: Mapping[tuple[int, int], int] | None = None, proved: bool = False
    ) -> None:
        self.status = status
        self.taken = dict(taken or {})
        self.proved = proved

    def values(self, problem: Problem) -> dict[str, Any]:
        """Member -> the value of its choice; those left out are missing."""
        found: dict[str, Any] = {}
        for number, kind in enumerate(problem.kinds):
            members = iter(kind.members)
            for position, choice in enumerate(kind.choices):
                for _ in range(self.taken.get((number, position), 0)):
                    found[next(members)] = choice.value
        return found
