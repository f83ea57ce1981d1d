"""Show the capacity of a cluster as text: what exists, what else fits, and why no more."""

from __future__ import annotations

from iallocator.render.quality import quality_words
from iallocator.render.table import Column, Table, numeric
from iallocator.render.words import REASONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from iallocator.render.table import Page

    Json = Mapping[str, Any]

__all__ = ["allocation_map", "capacity"]

KINDS = (("tiered", "Tiered"), ("standard", "Standard"))


def capacity(document: Json, facts: Json, page: Page) -> None:
    """Add what ``capacity --json`` writes to `page`."""
    cluster = document["cluster"]
    page.heading(
        f"Cluster: {cluster['nodes']} nodes, {_size(cluster['memory'])} memory, "
        f"{_size(cluster['disk'])} disk, {cluster['vcpus']} virtual cpus on {cluster['cpus']} cpus"
    )

    # What is used and free now, and after each run
    table = Table(
        "",
        numeric("instances"),
        numeric("score"),
        *(
            Column(title, True, above)
            for above, titles in (
                ("memory GiB", ("used", "free", "available")),
                ("disk GiB", ("used", "free", "available")),
                ("virtual cpus", ("used", "free")),
            )
            for title in titles
        ),
    )
    runs = [(title, document[kind]) for kind, title in KINDS if kind in document]
    moments = [("now", document["before"]), *((name.lower(), run["after"]) for name, run in runs)]
    for title, figures in moments:
        mib = (amount for what in ("memory", "disk") for amount in figures[what].values())
        sizes = [f"{amount / 1024:.1f}" for amount in mib]
        cpus = [str(number) for number in figures["cpu"].values()]
        table.add(title, str(figures["instances"]), page.score(figures["score"]), *sizes, *cpus)
    page.table(table)

    # How many instances of each size fit, and why no more
    for title, run in runs:
        start = run["start"]
        page.heading(f"{title} ({start['disk_template']}): {run['count']} more instances")
        table = Table(*(Column(name, True) for name in ("count", "memory", "disk", "vcpus")))
        for one in run["sizes"] or [{**start, "count": 0}]:
            table.add(
                str(one["count"]), _size(one["memory"]), _size(one["disk"]), str(one["vcpus"])
            )
        page.table(table)
        page.say(f"The end: {run['end']}")
        bound = quality_words(run, page.score)
        if bound:
            page.say(bound[0].upper() + bound[1:])
        if run["closest"]:
            page.say(f"Closest to one more: {run['closest']}")
        meanings = [f"{name}: {words}" for name, words in REASONS.items() if name in run["end"]]
        if meanings:
            page.say("; ".join(meanings), tone="faint")

    # How many instances like those of earlier requests fit
    if "forecast" in document:
        forecast = document["forecast"]
        orders = len(forecast["counts"])
        asked = forecast["asked"]
        were = "instance that was" if asked == 1 else "instances that were"
        page.heading(f"Forecast, by {asked} {were} asked for")
        if forecast["counts"]:
            page.say(
                f"until the first rejection {forecast['median']:g} more fit: the median of "
                f"{orders} orders, from {forecast['lowest']} to {forecast['highest']}"
            )
            page.say(f"rejected for {', '.join(sorted(set(forecast['reasons'])))}")
        if forecast["hopeless"]:
            page.say(
                f"{forecast['hopeless']} of {orders} orders ended with one that has no place on "
                "the cluster as it is, either"
            )
        if forecast["end"]:
            page.say(forecast["end"])


def allocation_map(title: str, run: Json) -> Iterator[str]:
    """Yield the places of the new instances, one per line."""
    yield f"{title} allocation map"
    for instance in run["instances"]:
        yield f"  {instance['name']} {' '.join(instance['nodes'])}"


def _size(mib: float) -> str:
    """Return an amount of memory or disk in words: in MiB, or from 10 GiB on in GiB."""
    return f"{mib / 1024:.1f} GiB" if abs(mib) >= 10 * 1024 else f"{mib:.0f} MiB"
