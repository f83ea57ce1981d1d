"""Everything a handler works with: the cluster as read, its state, and the settings."""

from __future__ import annotations

from iallocator.filters.node import ALL_LIMITS, FORCED_LIMITS, HARD_LIMITS
from iallocator.model.state import State
from iallocator.redundancy.rules import Rules
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options import Settings
    from iallocator.redundancy.judge import Demands, Judge
    from iallocator.scoring import Kernel

__all__ = ["Context", "Workbench"]


class Context:
    """The working set of one request.

    ``candidates`` says how many nodes and pairs of nodes will be scored for each
    instance of the request; it chooses the form of the kernel.  ``leaving`` is the
    instance whose room is free for its own new place.
    """

    __slots__ = (
        "cluster",
        "demands",
        "ignore_soft",
        "kernels",
        "leaving",
        "rules",
        "settings",
        "state",
    )

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        candidates: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.state = State(cluster)
        self.kernels = Kernels(self.state, candidates)
        self.rules = Rules(settings.n1)
        self.ignore_soft = settings.ignore_soft_errors
        self.leaving: Instance | None = None
        self.demands: Demands = {}

    def kernel(self, scope: Sequence[int]) -> Kernel:
        """Scores over `scope`, as the state is now."""
        return self.kernels.make(self.state, scope)

    def judge(self, scope: Sequence[int]) -> Judge:
        """N+1 as the state is now; `scope` as for the allocation."""
        from iallocator.redundancy.judge import Judge

        return Judge(self.state, self.kernels, self.rules, scope, self.leaving, self.demands)

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

    __slots__ = ("_context", "_judge", "_kernel", "_scope")

    def __init__(self, context: Context, scope: Sequence[int]) -> None:
        self._context = context
        self._scope = scope
        self._kernel: Kernel | None = None
        self._judge: Judge | None = None

    @property
    def kernel(self) -> Kernel:
        """Scores over the scope."""
        if self._kernel is None:
            self._kernel = self._context.kernel(self._scope)
        return self._kernel

    @property
    def judge(self) -> Judge:
        """N+1, as for an allocation scored over the scope."""
        if self._judge is None:
            self._judge = self._context.judge(self._scope)
        return self._judge
