"""The problem of an exact search: a choice for every member of every kind, within bounds.

Members of a kind are interchangeable: instances of one size with equal possible placements. Only
the number of members that take a choice matters. So a batch of equal instances is not tried in
every order.
"""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Row = tuple[Any, ...]
    """The name of a limited amount, for example ``("memory", 3)``."""

__all__ = [
    "FOUND", "IMPOSSIBLE", "LEFT_OUT", "TIME_OUT", "UNAVAILABLE", "Answer", "Choice", "Kind",
    "Problem",
]  # fmt: skip

FOUND = "found"
IMPOSSIBLE = "impossible"
TIME_OUT = "time out"
UNAVAILABLE = "unavailable"

LEFT_OUT = -1
"""The number of the choice that means: the member is left out."""


class Choice:
    """One choice that the solver can make for a member of a kind.

    Attributes
    ----------
    value:
        Any hashable object, which is returned to the caller.
    cost:
        The amount that the choice adds to the sum that the solver minimises.
    uses:
        Row -> the amount that the choice uses of it.
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
        The amounts that a member uses if it is left out, by row: it stays on its nodes.
    priority:
        If not all members can have a choice, those with a higher priority come first.
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
    """Kinds with their choices, bounds of the amounts used, and excluded combinations.

    Attributes
    ----------
    bounds:
        Row -> (lowest, highest) total that all choices may use of it. A row without bounds limits
        nothing.
    free:
        Continuous variables: (lowest, highest, uses by row).  An example is the memory that a node
        keeps free, which is a maximum.
    cuts:
        Excluded combinations: (kind, choice) -> number of members. An answer is excluded if, for
        each of these choices, at least this number of members take it. The choice `LEFT_OUT` counts
        members left out.
    """

    __slots__ = ("bounds", "cuts", "free", "kinds")

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.bounds: dict[Row, tuple[float, float]] = {}
        self.free: list[tuple[float, float, Mapping[Row, float]]] = []
        self.cuts: list[dict[tuple[int, int], int]] = []

    def at_most(self, row: Row, highest: float) -> None:
        """Limit the amount of `row` that all choices use to at most `highest`."""
        lowest, present = self.bounds.get(row, (-inf, inf))
        self.bounds[row] = (lowest, min(present, highest))

    def exactly(self, row: Row, amount: float) -> None:
        """Require that all choices use exactly `amount` of `row`."""
        self.bounds[row] = (amount, amount)

    def add_amount(self, lowest: float, uses: Mapping[Row, float]) -> None:
        """Add a variable amount of at least `lowest`; `uses`: row -> what one unit of the amount
        uses.
        """
        self.free.append((lowest, inf, uses))

    def add_relaxable(self, name: str, rows: Iterable[Row], highest: float, penalty: float) -> None:
        """Limit what the choices use of each of `rows` to `highest`, or one more at the cost
        `penalty`.

        `name` identifies the kind that is added for this choice.
        """
        relaxed = dict.fromkeys(rows, -1.0)
        choices = [Choice("kept", 0.0, {}), Choice("broken", penalty, relaxed)]
        self.kinds.append(Kind([name], choices))
        self.bounds |= dict.fromkeys(rows, (-inf, highest))

    @property
    def size(self) -> int:
        """Return the number of choices over all kinds."""
        return sum(len(kind.choices) for kind in self.kinds)


class Answer:
    """The answer of a search.

    Attributes
    ----------
    status:
        `FOUND`; `IMPOSSIBLE`: proved; `TIME_OUT`: the budget was spent before an answer;
        `UNAVAILABLE`: no solver is installed.
    taken:
        (kind, choice) -> the number of members that take the choice; empty if no answer was found.
    proved:
        Whether no answer costs less, within the gap of the search.
    """

    __slots__ = ("proved", "status", "taken")

    def __init__(
        self, status: str, taken: Mapping[tuple[int, int], int] | None = None, proved: bool = False
    ) -> None:
        self.status = status
        self.taken = dict(taken or {})
        self.proved = proved

    def values(self, problem: Problem) -> dict[str, Any]:
        """Return member -> the value of its choice, for each member that is not left out."""
        values: dict[str, Any] = {}
        for number, kind in enumerate(problem.kinds):
            members = iter(kind.members)
            for position, choice in enumerate(kind.choices):
                for _ in range(self.taken.get((number, position), 0)):
                    values[next(members)] = choice.value
        return values
