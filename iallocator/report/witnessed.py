"""The context in which a request is asked again, so that it can be explained."""

from __future__ import annotations

from copy import copy

from iallocator.context import Context
from iallocator.report.redundancy import Witness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options import Settings

__all__ = ["WitnessedContext"]


class WitnessedContext(Context):
    """A context for asking again: at least two ways for each instance, and a `Witness`.

    `instances` are those that the request is about.
    """

    __slots__ = ("_witnesses",)

    def __init__(
        self, cluster: Cluster, settings: Settings, instances: Sequence[Instance]
    ) -> None:
        wanted = copy(settings)
        wanted.top = max(2, settings.top)
        sizes = [len(group.nodes) for group in cluster.groups]
        work = sum(size**i.required_nodes for i in instances for size in sizes)
        super().__init__(cluster, wanted, work)
        self._witnesses: dict[tuple[int, ...], Witness] = {}

    def forget(self) -> None:
        """Begin with new witnesses: what they know is about the state as it was."""
        self._witnesses.clear()

    def judge(self, scope: Sequence[int]) -> Witness:
        """The witness for `scope`, the same until `forget`."""
        key = tuple(scope)
        if key not in self._witnesses:
            self._witnesses[key] = Witness(self.state, self.kernels, self.rules, scope)
        return self._witnesses[key]
