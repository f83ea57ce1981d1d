"""The command ``capacity``."""

from __future__ import annotations

import sys
from functools import partial

from iallocator.commands.command import Command, Result, ShownState
from iallocator.commands.progress import progress_line, say_progress
from iallocator.commands.shared_options import (
    HTML_OPTION,
    MAX_CPU_OPTION,
    MIN_DISK_OPTION,
    OFFLINE_OPTION,
)
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import UsageError, tell
from iallocator.model.templates import DISKLESS, DRBD, PLAIN, TEMPLATES
from iallocator.options.settings import Settings as Common
from iallocator.options.table import Option
from iallocator.options.values import Choice, file_name, whole
from iallocator.sources.lines import whole as whole_number
from iallocator.sources.simulate import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.planners.capacity.capacity import CapacityOptions, CapacityReport
    from iallocator.planners.capacity.fill import FillResult
    from iallocator.planners.capacity.forecast import Past
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["Capacity"]


def size(text: str) -> tuple[int, ...]:
    """Disk (MiB), memory (MiB), virtual cpus, and spindles (1) of an instance."""
    fields = text.split(",")
    numbers = [parse_size(field) for field in fields[:2]]
    counts = [whole_number(field) for field in fields[2:]]
    found = [number for number in (*numbers, *counts) if number is not None]
    if len(found) != len(fields) or len(fields) not in (3, 4):
        raise ValueError("disk,memory,cpus[,spindles] like 20g,2g,1")
    return (*found, 1)[:4]


class Settings(Common):
    """The settings of this command."""

    json: bool = False
    html: str | None = None
    machine_readable: str = "no"
    standard_alloc: tuple[int, ...] | None = None
    tiered_alloc: tuple[int, ...] | None = None
    disk_template: str = ""
    spindle_use: int | None = None
    independent_groups: bool = False
    accept_existing_errors: bool = False
    offline: Sequence[str] = ()
    max_cpu: float | None = None
    min_disk: float = 0.0
    max_length: int | None = None
    replay: str = ""


OPTIONS = (
    Option("--json", "json", "write the answer as one JSON document"),
    HTML_OPTION,
    Option("--machine-readable", "machine_readable", "write hspace's HTS_ keys: yes or no",
           Choice("yes", "no"), "[=ANSWER]", bare="yes"),
    Option("--standard-alloc", "standard_alloc",
           "size of the standard instances: disk,memory,cpus[,spindles] (default: the policy's)",
           size, "SIZE"),
    Option("--tiered-alloc", "tiered_alloc",
           "size to begin with in tiers (default: the largest of each interval of the policy)",
           size, "SIZE"),
    Option("--disk-template", "disk_template",
           "disk template of the instances (default: the first of the policy; drbd or plain if "
           "that is diskless)",
           Choice(*TEMPLATES), "TEMPLATE"),
    Option("--spindle-use", "spindle_use", "spindles that an instance counts for", whole, "N"),
    Option("--independent-groups", "independent_groups",
           "leave out groups that are not N+1, fill the others"),
    Option("--accept-existing-errors", "accept_existing_errors",
           "fill a cluster that is not N+1, too"),
    OFFLINE_OPTION,
    MAX_CPU_OPTION,
    MIN_DISK_OPTION,
    Option("--max-length -l", "max_length", "instances at most", whole, "N"),
    Option("--replay", "replay",
           "forecast: fill with what the requests in this folder ask for, until the first refusal",
           file_name, "FOLDER"),
)  # fmt: skip


class Capacity(Command):
    """``iallocator capacity``: how many more instances fit, with N+1 kept.

    Exit status 0: the answer is printed; 1: no online node may take instances; 130:
    interrupted, what was found until then is printed.
    """

    options = OPTIONS
    settings_type = Settings
    suffixes = ("tiered", "standard")
    settings: Settings

    def check(self) -> None:
        """Reject two forms of the answer, and a rank for sizes."""
        settings = self.settings
        if settings.json and settings.machine_readable == "yes":
            raise UsageError("--json and --machine-readable exclude each other")
        if settings.asks_here("strategy") and not settings.replay:
            raise UsageError("--strategy is for requests (--replay): sizes are placed by score")

    def plan(self, source: Source, settings: Common, deadline: Deadline) -> Result:
        """Fill the cluster."""
        from iallocator.planners.capacity.capacity import study

        wanted = _wanted(self.settings, settings, source)
        with progress_line("filling"):
            return Filled(study(source.cluster, wanted, _say_filling), self.settings)


class Filled(Result):
    """How many instances fitted, and the states at the ends."""

    def __init__(self, found: CapacityReport, settings: Settings) -> None:
        super().__init__()
        self._found = found
        self._settings = settings
        self._document: Json = {}
        if found.late:
            self.problems.append(limit_reached(settings.planning_seconds))
        if found.nowhere:
            self.problems.append("no online nodes for instances of this kind")

    @property
    def status(self) -> int:  # type: ignore[override]
        """The exit status."""
        return int(self._found.nowhere)

    @property
    def interrupted(self) -> bool:  # type: ignore[override]
        """Whether a signal ended the filling."""
        return self._found.interrupted

    def states_before(self) -> Iterable[ShownState]:
        """Return the state at the beginning, and those at both ends."""
        found = self._found
        yield ShownState("Initial", "", lambda: found.before)
        for kind, run in (("tiered", found.tiered), ("standard", found.standard)):
            if run is not None:
                yield ShownState(kind.capitalize(), kind, partial(getattr, run, "state"))

    def complete(self) -> bool:
        """Make the document; with ``-v`` draw on stderr where instances were placed."""
        from iallocator.planners.capacity.report import study_document
        from iallocator.render.capacity import allocation_map

        self._document = study_document(self._found)
        if self._settings.verbose:
            for kind in ("tiered", "standard"):
                if kind in self._document:
                    tell(*allocation_map(kind.capitalize(), self._document[kind]))
        return True

    def document(self) -> Json:
        """Return what fitted as plain data."""
        return self._document

    def text(self) -> str:
        """Return what fitted as text for people, or as hspace's keys."""
        if self._settings.machine_readable == "yes":
            from iallocator.planners.capacity.report import key_lines

            return "".join(f"{line}\n" for line in key_lines(self._found))
        from iallocator.render.capacity import capacity_page
        from iallocator.render.table import wants_colour

        return capacity_page(self._document, wants_colour(sys.stdout))

    def page(self) -> PageView:
        """Return the page; both ends are checked as far as there is time left for it."""
        from iallocator.render.page.capacity_page import capacity_view
        from iallocator.render.page.standing import Judging

        settings, relations = self._settings, None
        if settings.behaviour.knows_affinity:
            from iallocator.constraints.affinity_factory import relations_of

            relations = relations_of(self._found.before.cluster, (), settings.tag_prefix)
        deadline = Deadline.of_run(settings.planning_seconds)
        judging = Judging(settings.n1, settings.min_disk, relations, deadline)
        return capacity_view(self._found, self._document, judging)


def _wanted(settings: Settings, tagged: Common, source: Source) -> CapacityOptions:
    """Return what to fill the cluster with; `tagged` are the settings completed from tags."""
    from iallocator.engine import reading_for
    from iallocator.planners.capacity.capacity import CapacityOptions
    from iallocator.planners.capacity.instance_size import Size, largest_sizes, standard_size

    load = reading_for(settings).load
    policy = source.policy
    if not (settings.disk_template or policy.templates):
        raise UsageError("the policy has no disk templates: expected --disk-template")
    template = settings.disk_template or _usual_template(settings, source)
    use = policy.standard.spindles if settings.spindle_use is None else settings.spindle_use

    def chosen(given: tuple[int, ...]) -> Size:
        disk, memory, cpus, spindles = given
        return Size(memory, disk, cpus, spindles, template, use, load)

    standard = standard_size(policy, template, use, load)
    if settings.standard_alloc is not None:
        standard = chosen(settings.standard_alloc)
    largest = largest_sizes(policy, template, use, load)
    if settings.tiered_alloc is not None:
        largest = [chosen(settings.tiered_alloc)]

    if not TEMPLATES[template].has_disks and settings.behaviour.plans_for_diskless:
        for one in (standard, *largest):
            one.disk = 0
    past: list[Past] = []
    if settings.replay:
        from iallocator.commands.earlier_requests import past_requests

        past = past_requests(settings.replay, settings, source.cluster)
    return CapacityOptions(
        standard,
        largest,
        n1=tagged.n1 if tagged.says("n1", "n1_off") else "",
        accept_errors=settings.accept_existing_errors,
        independent=settings.independent_groups,
        allowed=settings.restrict_allocation_to,
        offline=settings.offline,
        max_cpu=settings.max_cpu,
        min_disk=settings.min_disk,
        limit=settings.max_length,
        ignore_soft=tagged.ignore_soft_errors,
        behaviour=settings.behaviour,
        seconds=settings.planning_seconds,
        tag_prefix=settings.tag_prefix,
        n1_of={i: own.n1 for i, own in tagged.by_group.items() if "n1" in own.origins},
        past=past,
        soft_of={i: own.ignore_soft_errors for i, own in tagged.by_group.items()},
    )


def _usual_template(settings: Settings, source: Source) -> str:
    """Return the disk template to count if none is asked for: the first of the policy.

    Without ``--compat hail``, that is not diskless if the policy allows others: an instance on
    two nodes (drbd) where a group has two that may be used, or on one (plain).  The order of
    htools' default policy begins with diskless.
    """
    templates = source.policy.templates
    if not settings.behaviour.plans_for_diskless or templates[0] != DISKLESS:
        return templates[0]

    from iallocator.planners.eligible import nodes_named

    nodes, words = source.cluster.nodes, settings.restrict_allocation_to
    allowed = nodes_named(source.cluster, words, "--restrict-allocation-to") if words else ()
    pairs = any(
        sum(nodes[i].online and (not allowed or nodes[i].name in allowed) for i in group.nodes) > 1
        for group in source.cluster.groups
    )
    wanted = (*([DRBD] if pairs else []), PLAIN, *templates[1:])
    return next((one for one in wanted if one in templates), DISKLESS)


def _say_filling(kind: str, filling: FillResult) -> None:
    say_progress(f"{kind}: {len(filling.placed)} instances")
