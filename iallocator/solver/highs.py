"""Problems as mixed integer programs for HiGHS (package ``highspy``, optional).

HiGHS was chosen over CP-SAT because it takes a third of the space and of the time to load, and is
as fast on problems of this kind.  `benchmarks/solvers.py` compares the two;
``benchmarks/SOLVERS.md`` has the figures.
"""

from __future__ import annotations

from functools import cache
from math import inf

from iallocator.deadline import ITERATIONS, TRIALS, Deadline, due
from iallocator.solver.problem import FOUND, IMPOSSIBLE, LEFT_OUT, TIME_OUT, UNAVAILABLE, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from iallocator.solver.problem import Problem

    Check = Callable[[Mapping[str, Any]], Sequence[str] | None]

__all__ = ["available", "search", "solve"]

RELATIVE_GAP = 0.02
"""The share of the lowest cost by which an answer may be more expensive."""

ITERATIONS_PER_BRANCH = 20
"""The least number of simplex steps that a branch takes. HiGHS limits only branches."""


def available() -> bool:
    """Return whether the solver is installed."""
    from importlib.util import find_spec

    return find_spec("highspy") is not None


def solve(problem: Problem, budget: Deadline, gap: float = RELATIVE_GAP) -> Answer:
    """Solve `problem` within `budget`; with `gap` 0, the answer has the least sum of costs."""
    if any(not kind.choices and kind.penalty is None for kind in problem.kinds):
        return Answer(IMPOSSIBLE)
    if budget.must_end:
        return Answer(TIME_OUT)
    if not available():
        return Answer(UNAVAILABLE)
    import highspy

    model = _Model(problem)
    if due():  # to build a large program takes long
        return Answer(TIME_OUT)
    program = model.program(highspy)
    if due():
        return Answer(TIME_OUT)
    solver = _silent_solver()()
    for name, value in (
        ("output_flag", False),
        ("time_limit", float(budget.left)),
        ("mip_max_nodes", max(1, int(budget.work[ITERATIONS]) // ITERATIONS_PER_BRANCH)),
        ("mip_rel_gap", gap),
        ("threads", 1),
        ("random_seed", 0),
    ):
        solver.setOptionValue(name, value)

    def may_go_on(event: Any) -> None:
        event.data_in.user_interrupt = due()

    solver.cbMipInterrupt += may_go_on
    solver.passModel(program)
    solver.run()
    budget.spend(max(0, solver.getInfo().simplex_iteration_count), ITERATIONS)
    status = solver.getModelStatus()
    values = solver.getSolution().col_value
    proved = status == highspy.HighsModelStatus.kOptimal
    if proved or solver.getInfo().primal_solution_status == 2:  # feasible
        return Answer(FOUND, model.taken(values), proved)
    if status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return Answer(IMPOSSIBLE)
    return Answer(TIME_OUT)


@cache
def _silent_solver() -> type[Any]:
    """Return the solver's class, made to print nothing.

    Version 1.16 prints its name while its constructor sets up the callbacks: too early for
    an option that is set afterwards.
    """
    import highspy

    class SilentSolver(highspy.Highs):
        def enableCallbacks(self) -> None:  # noqa: N802  # the name is the library's
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    return SilentSolver


class _Model:
    """The columns and rows of a problem.

    Columns: an integer for each choice, the continuous variables, and a binary variable for each
    choice in a cut.  Rows: the members of each kind, the bounds, and the cuts.
    """

    def __init__(self, problem: Problem) -> None:
        self._columns: list[tuple[float, float, float, bool]] = []  # cost, low, high, whole
        self._entries: list[list[tuple[int, float]]] = []  # of each column: row, factor
        self._rows: list[tuple[float, float]] = []
        self._choices: list[tuple[int, int]] = []
        named = {row: self._row(*bounds) for row, bounds in problem.bounds.items()}
        for number, kind in enumerate(problem.kinds):
            count = len(kind.members)
            members = self._row(count, count)
            for position, choice in enumerate(kind.choices):
                uses = [(named[row], use) for row, use in choice.uses.items() if row in named]
                self._column(choice.cost, 0, count, True, [(members, 1.0), *uses])
                self._choices.append((number, position))
            if kind.penalty is not None:
                uses = [(named[row], use) for row, use in kind.remains.items() if row in named]
                self._column(kind.penalty, 0, count, True, [(members, 1.0), *uses])
                self._choices.append((number, LEFT_OUT))
        for low, high, used in problem.free:
            uses = [(named[row], use) for row, use in used.items() if row in named]
            self._column(0.0, low, high, False, uses)
        # Of each choice in a cut, a column says whether it is taken so often or more
        where = {key: column for column, key in enumerate(self._choices)}
        reached: dict[tuple[tuple[int, int], int], int] = {}
        for cut in problem.cuts:
            forbidden = self._row(-inf, len(cut) - 1)
            for key, often in cut.items():
                column = reached.get((key, often))
                if column is None:
                    count = len(problem.kinds[key[0]].members)
                    tie = self._row(-inf, often - 1)  # taken - room x yes <= often - 1
                    self._entries[where[key]].append((tie, 1.0))
                    column = reached[key, often] = len(self._columns)
                    self._column(0.0, 0, 1, True, [(tie, -float(count - often + 1))])
                self._entries[column].append((forbidden, 1.0))

    def _row(self, low: float, high: float) -> int:
        self._rows.append((low, high))
        return len(self._rows) - 1

    def _column(
        self,
        cost: float,
        low: float,
        high: float,
        whole: bool,
        entries: Sequence[tuple[int, float]],
    ) -> None:
        self._columns.append((cost, low, high, whole))
        self._entries.append(list(entries))

    def program(self, highspy: Any) -> Any:
        """Return the program in the form that the solver accepts."""
        import numpy as np

        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self._columns), len(self._rows)
        costs, lows, highs, whole = zip(*self._columns) if self._columns else ((),) * 4
        program.col_cost_ = np.array(costs, dtype=float)
        program.col_lower_ = np.array(lows, dtype=float)
        program.col_upper_ = np.array(highs, dtype=float)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        program.integrality_ = [kinds[is_whole] for is_whole in whole]
        program.row_lower_ = np.array([low for low, _ in self._rows], dtype=float)
        program.row_upper_ = np.array([high for _, high in self._rows], dtype=float)
        matrix = program.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kColwise
        matrix.start_ = np.cumsum([0, *map(len, self._entries)])
        matrix.index_ = np.array([row for column in self._entries for row, _ in column])
        matrix.value_ = np.array(
            [factor for column in self._entries for _, factor in column], dtype=float
        )
        return program

    def taken(self, values: Sequence[float]) -> dict[tuple[int, int], int]:
        """Return (kind, choice) -> the number of members that take it, without `LEFT_OUT`."""
        return {
            choice: round(values[column])
            for column, choice in enumerate(self._choices)
            if choice[1] != LEFT_OUT and round(values[column]) > 0
        }


def search(problem: Problem, check: Check, budget: Deadline, gap: float = RELATIVE_GAP) -> Answer:
    """Return the first answer that `check` accepts.

    `check` receives the value of each member that is not left out. It returns None, or the members
    with choices that together violate a constraint, regardless of the other members. A cut then
    excludes this combination of choices. No valid answer is excluded, so that a proof that there is
    no answer stays valid.
    """
    while True:
        answer = solve(problem, budget, gap)
        if answer.status != FOUND:
            return answer
        values = answer.values(problem)
        budget.spend(len(values), TRIALS)
        broken = check(values)
        if broken is None:
            return answer
        # How often each choice is taken by the members in `broken`; to be left out is a choice
        cut: dict[tuple[int, int], int] = {}
        for number, kind in enumerate(problem.kinds):
            positions = {choice.value: position for position, choice in enumerate(kind.choices)}
            for member in kind.members:
                if member in broken:
                    position = positions[values[member]] if member in values else LEFT_OUT
                    cut[number, position] = cut.get((number, position), 0) + 1
        problem.cuts.append(cut)
        if budget.must_end:
            return Answer(TIME_OUT)
