"""``iallocator capacity``: how many more instances fit, with N+1 kept.

Exit status 0: the answer is printed; 1: no online node may take instances; 130:
interrupted, what was found until then is printed.
"""

from __future__ import annotations

import sys
from functools import partial

from iallocator.commands.shared.plan_output import (
    HTML_OPTION,
    INTERRUPTED,
    check_outputs,
    check_saving,
    print_json,
    show_state_of,
    write_html,
)
from iallocator.commands.shared.progress import progress_line, say_progress
from iallocator.commands.shared.source import load_source
from iallocator.constraints.affinity_factory import relations_of
from iallocator.deadline import Deadline, limit_reached
from iallocator.engine import effective_settings, reading_for
from iallocator.errors import UsageError, tell
from iallocator.files import WholeOutput, is_stdout
from iallocator.model.templates import DISKLESS, DRBD, PLAIN, TEMPLATES
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.options.values import amount, choice, file_name, share, whole
from iallocator.planners.capacity.instance_size import Size, largest_sizes, standard_size
from iallocator.planners.capacity.report import key_lines, study_document
from iallocator.planners.eligible import nodes_named
from iallocator.render.capacity import allocation_map, capacity_page
from iallocator.render.table import wants_colour
from iallocator.sources.lines import whole as whole_number
from iallocator.sources.simulate import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.planners.capacity.capacity import CapacityOptions, CapacityReport
    from iallocator.planners.capacity.fill import FillResult
    from iallocator.planners.capacity.forecast import Past
    from iallocator.planners.capacity.instance_size import Load
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


def size(text: str) -> tuple[int, ...]:
    """Disk (MiB), memory (MiB), virtual cpus, and spindles (1) of an instance."""
    fields = text.split(",")
    numbers = [parse_size(field) for field in fields[:2]]
    counts = [whole_number(field) for field in fields[2:]]
    found = [number for number in (*numbers, *counts) if number is not None]
    if len(found) != len(fields) or len(fields) not in (3, 4):
        raise ValueError("disk,memory,cpus[,spindles] like 20g,2g,1")
    return (*found, 1)[:4]


class Settings(options.Settings):
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
           choice("yes", "no"), "[=ANSWER]", bare="yes"),
    Option("--standard-alloc", "standard_alloc",
           "size of the standard instances: disk,memory,cpus[,spindles] (default: the policy's)",
           size, "SIZE"),
    Option("--tiered-alloc", "tiered_alloc",
           "size to begin with in tiers (default: the largest of each interval of the policy)",
           size, "SIZE"),
    Option("--disk-template", "disk_template",
           "disk template of the instances (default: the first of the policy; drbd or plain if "
           "that is diskless)",
           choice(*TEMPLATES), "TEMPLATE"),
    Option("--spindle-use", "spindle_use", "spindles that an instance counts for", whole, "N"),
    Option("--independent-groups", "independent_groups",
           "leave out groups that are not N+1, fill the others"),
    Option("--accept-existing-errors", "accept_existing_errors",
           "fill a cluster that is not N+1, too"),
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
    Option("--max-cpu", "max_cpu", "virtual cpus per cpu at most", amount, "RATIO"),
    Option("--min-disk", "min_disk", "share of disk that stays free, 0 to 1", share, "RATIO"),
    Option("--max-length -l", "max_length", "instances at most", whole, "N"),
    Option("--replay", "replay",
           "forecast: fill with what the requests in this folder ask for, until the first refusal",
           file_name, "FOLDER"),
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Fill the cluster in the file (- or none: stdin), say what fitted."""
    from iallocator.planners.capacity.capacity import study

    if settings.json and settings.machine_readable == "yes":
        raise UsageError("--json and --machine-readable exclude each other")
    if settings.asks_here("strategy") and not settings.replay:
        raise UsageError("--strategy is for requests (--replay): sizes are placed by score")
    check_outputs(settings)
    check_saving(settings, "tiered", "standard")
    source = load_source(settings, positional)
    remarks: list[str] = []
    tagged = effective_settings(source.cluster, {}, settings, remarks)
    tell(*remarks)
    wants = _wants(settings, tagged, source, reading_for(settings).load)
    with progress_line("filling"):
        found = study(source.cluster, wants, _say_filling)
    with WholeOutput():
        _show_states(found, source, settings)
        _write(found, settings)
    if found.late:
        tell(f"iallocator: {limit_reached(settings.planning_seconds)}")
    if found.nowhere:
        tell("iallocator: no online nodes for instances of this kind")
        return 1
    return INTERRUPTED if found.interrupted else 0


def _usual_template(settings: Settings, source: Source) -> str:
    """Return the disk template to count if none is asked for: the first of the policy.

    Without ``--compat hail``, that is not diskless if the policy allows others: an instance on
    two nodes (drbd) where a group has two that may be used, or on one (plain).  The order of
    htools' default policy begins with diskless.
    """
    templates = source.policy.templates
    if not settings.behaviour.plans_for_diskless or templates[0] != DISKLESS:
        return templates[0]

    nodes, words = source.cluster.nodes, settings.restrict_allocation_to
    allowed = nodes_named(source.cluster, words, "--restrict-allocation-to") if words else ()
    pairs = any(
        sum(nodes[i].online and (not allowed or nodes[i].name in allowed) for i in group.nodes) > 1
        for group in source.cluster.groups
    )
    wanted = (*([DRBD] if pairs else []), PLAIN, *templates[1:])
    return next((one for one in wanted if one in templates), DISKLESS)


def _asked_n1(settings: options.Settings) -> str:
    """The N+1 that was asked for, by the command line or by tags; "": none in particular."""
    return settings.n1 if settings.says("n1", "n1_off") else ""


def _wants(
    settings: Settings, tagged: options.Settings, source: Source, load: Load
) -> CapacityOptions:
    """What is asked; `tagged` are the settings completed from tags."""
    from iallocator.planners.capacity.capacity import CapacityOptions

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
        from iallocator.commands.shared.past_requests import past_requests

        past = past_requests(settings.replay, settings, source.cluster)
    return CapacityOptions(
        standard,
        largest,
        n1=_asked_n1(tagged),
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


def _say_filling(kind: str, filling: FillResult) -> None:
    say_progress(f"{kind}: {len(filling.placed)} instances")


def _show_states(found: CapacityReport, source: Source, settings: Settings) -> None:
    """The lists that were asked for on stderr, and the files with the states at the ends."""
    show_state_of(lambda: found.before, source, settings, "Initial", "")
    for kind, run in (("tiered", found.tiered), ("standard", found.standard)):
        if run is not None:
            show_state_of(partial(getattr, run, "state"), source, settings, kind.capitalize(), kind)


def _write(found: CapacityReport, settings: Settings) -> None:
    """The answer in the form that was asked for."""
    document = study_document(found)
    if settings.verbose:
        for kind in ("tiered", "standard"):
            if kind in document:
                tell(*allocation_map(kind.capitalize(), document[kind]))
    if settings.json:
        print_json(document)
    elif settings.machine_readable == "yes":
        for line in key_lines(found):
            print(line)
    elif not is_stdout(settings.html):
        print(capacity_page(document, wants_colour(sys.stdout)), end="")
    if settings.html is not None:
        write_html(settings.html, lambda: _page(found, document, settings))


def _page(found: CapacityReport, document: dict[str, Any], settings: Settings) -> PageView:
    """The page; both ends are judged as far as there is time left for it."""
    from iallocator.render.page.capacity_page import capacity_view
    from iallocator.render.page.standing import Judging

    relations = None
    if settings.behaviour.knows_affinity:
        relations = relations_of(found.before.cluster, (), settings.tag_prefix)
    over = Deadline.of_run(settings.planning_seconds).over
    judging = Judging(settings.n1, settings.min_disk, relations, over)
    return capacity_view(found, document, judging)
