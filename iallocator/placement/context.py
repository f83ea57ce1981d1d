"""Everything a handler works with: the cluster as read, its state, and the settings."""

from __future__ import annotations

from iallocator.constraints.affinity_factory import bonds_for
from iallocator.limits.node import ALL_LIMITS, FORCED_LIMITS, HARD_LIMITS
from iallocator.model.state import State
from iallocator.n1.rules import Rules
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.n1.check import N1Cache, N1Check
    from iallocator.options import Settings
    from iallocator.ranking.base import ScheduledInstance
    from iallocator.scoring import Kernel

__all__ = ["Context", "Workbench"]


class Context:
    """The working set of one request.

    ``candidates`` says how many nodes and pairs of nodes will be scored for each
    instance of the request; it chooses the form of the kernel.  ``leaving`` is the
    instance whose room is free for its own new place.  ``kept`` is what strategies
    remember from one instance of the request to the next, by the name of the strategy;
    ``remarks`` are lines for stderr that come up on the way.  ``coming`` are the new
    instances of the request; ``turn`` is whose turn it is where a strategy decides in
    which order instances choose, and which of them choose together.  ``bonds`` are
    those between instances.
    """

    __slots__ = (
        "bonds",
        "cluster",
        "coming",
        "ignore_soft",
        "kept",
        "kernels",
        "leaving",
        "remarks",
        "remembered",
        "rules",
        "settings",
        "state",
        "turn",
    )

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        candidates: Iterable[tuple[int, int]] = (),
        coming: Sequence[Instance] = (),
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.state = State(cluster)
        self.kernels = Kernels(self.state, candidates)
        self.rules = Rules(settings.n1)
        self.ignore_soft = settings.ignore_soft_errors
        self.leaving: Instance | None = None
        self.remembered: N1Cache | None = None
        self.kept: dict[str, Any] = {}
        self.remarks: list[str] = []
        self.coming = coming
        self.turn: ScheduledInstance | None = None
        self.bonds = bonds_for(self)

    def settings_of(self, group: Group) -> Settings:
        """The settings for `group`, whose tags may ask for others than the rest has."""
        return self.settings.by_group.get(group.index, self.settings)

    def look_at(self, group: Group) -> None:
        """Judge by the settings of `group` from now on."""
        if self.settings.by_group:
            settings = self.settings_of(group)
            self.ignore_soft = settings.ignore_soft_errors
            if settings.n1 != self.rules.mode:
                self.rules = Rules(settings.n1)

    def kernel(self, scope: Sequence[int]) -> Kernel:
        """Scores over `scope`, as the state is now."""
        return self.kernels.make(self.state, scope)

    def judge(self, scope: Sequence[int]) -> N1Check:
        """N+1 as the state is now; `scope` as for the allocation."""
        from iallocator.n1.check import N1Cache, N1Check

        if self.remembered is None:
            self.remembered = N1Cache()
        return N1Check(self.state, self.kernels, self.rules, scope, self.leaving, self.remembered)

    def workbench(self, scope: Sequence[int]) -> Workbench:
        """Kernel and judge for the state as it is now."""
        return Workbench(self, scope)

    @property
    def limits(self) -> int:
        """Which limits of nodes count for a new instance."""
        return HARD_LIMITS if self.ignore_soft else ALL_LIMITS

    @property
    def mirror_limits(self) -> int:
        """Which limits count for the secondary of a new instance; hail ignores none there."""
        free = self.ignore_soft and not self.settings.like_hail
        return FORCED_LIMITS if free else ALL_LIMITS

    def move_limits(self, source: int) -> int:
        """Which limits count for a move off `source`: it is forced if that is not online."""
        free = self.ignore_soft or not self.cluster.nodes[source].online
        return FORCED_LIMITS if free else ALL_LIMITS

    def all_nodes(self) -> range:
        """Every node of the document."""
        return range(len(self.cluster.nodes))


class Workbench:
    """The kernel and the judge of one state and scope, made when first needed."""

    __slots__ = ("_context", "_judges", "_kernel", "_scope")

    def __init__(self, context: Context, scope: Sequence[int]) -> None:
        self._context = context
        self._scope = scope
        self._kernel: Kernel | None = None
        self._judges: dict[str, N1Check] = {}

    @property
    def kernel(self) -> Kernel:
        """Scores over the scope."""
        if self._kernel is None:
            self._kernel = self._context.kernel(self._scope)
        return self._kernel

    @property
    def judge(self) -> N1Check:
        """N+1, as for an allocation scored over the scope, by the rules that count now."""
        mode = self._context.rules.mode
        judge = self._judges.get(mode)
        if judge is None:
            judge = self._judges[mode] = self._context.judge(self._scope)
        return judge
