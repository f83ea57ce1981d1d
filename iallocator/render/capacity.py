"""Show the capacity of a cluster as text: present use, instances that fit, limiting resource."""

from __future__ import annotations

from iallocator.errors import many
from iallocator.render.quality import quality_words
from iallocator.render.table import Column, Table, numeric
from iallocator.render.words import REASON_WORDS
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from iallocator.render.table import Page

    Json = Mapping[str, Any]

__all__ = [
    "LASTING", "TREND", "TREND_NOTE", "allocation_map", "capacity", "gain_of", "gained_in",
    "lasting_of", "trend_remarks", "trend_rows", "trend_title",
]  # fmt: skip

CAPACITY_FILLINGS = (("tiered", "Tiered"), ("standard", "Standard"))


def capacity(document: Json, facts: Json, page: Page) -> None:
    """Add to `page` the capacity in `document`, which ``capacity --json`` writes."""
    cluster = document["cluster"]
    page.heading(
        f"Cluster: {many(cluster['nodes'], 'node')}, {_size(cluster['memory'])} memory, "
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
    runs = [(title, document[kind]) for kind, title in CAPACITY_FILLINGS if kind in document]
    stages = [("now", document["before"]), *((name.lower(), run["after"]) for name, run in runs)]
    for title, figures in stages:
        mib = (amount for what in ("memory", "disk") for amount in figures[what].values())
        sizes = [f"{amount / GIB:.1f}" for amount in mib]
        cpus = [str(number) for number in figures["cpu"].values()]
        table.add(title, str(figures["instances"]), page.score(figures["score"]), *sizes, *cpus)
    page.table(table)

    # How many instances of each size fit, and why no more
    for title, run in runs:
        start = run["start"]
        found = many(run["count"], "more instance")
        page.heading(f"{title} ({start['disk_template']}): {found}")
        table = Table(*(Column(name, True) for name in ("count", "memory", "disk", "vcpus")))
        for one in run["sizes"] or [{**start, "count": 0}]:
            table.add(
                str(one["count"]), _size(one["memory"]), _size(one["disk"]), str(one["vcpus"])
            )
        page.table(table)
        page.say(f"Ended by: {run['end']}")
        bound = quality_words(run, page.score)
        if bound:
            page.say(bound[0].upper() + bound[1:])
        if run["closest"]:
            page.say(f"Closest candidate: {run['closest']}")
        meanings = [
            f"{name}: {words}" for name, words in REASON_WORDS.items() if name in run["end"]
        ]
        if meanings:
            page.say("; ".join(meanings), tone="faint")

    # How many instances like those of earlier requests fit
    if "forecast" in document:
        forecast = document["forecast"]
        orders = len(forecast["counts"])
        growth = forecast["asked"]
        page.heading(f"Forecast, by {many(growth, 'earlier request')} for an instance")
        if forecast["counts"]:
            page.say(
                f"until the first rejection, {forecast['median']:g} more fit: the median of "
                f"{orders} orders, from {forecast['lowest']} to {forecast['highest']}"
            )
            page.say(f"rejected for {', '.join(sorted(set(forecast['reasons'])))}")
        if forecast["hopeless"]:
            page.say(
                f"{forecast['hopeless']} of {orders} orders ended with an instance that does not "
                "fit on the present cluster either"
            )
        if forecast["end"]:
            page.say(forecast["end"])

    if "trend" in document:
        _trend(document["trend"], page)
    if "purchases" in document:
        _purchases(document["purchases"], page)


def trend_rows(trend: Json) -> Iterator[tuple[str, ...]]:
    """Yield a row of texts for each group with a forecast, then a row for all groups together."""
    whole = [] if trend["all_groups"] is None else [{"group": "all", **trend["all_groups"]}]
    for one in [*trend["groups"], *whole]:
        if not one["reason"]:
            per_day = (f"{one[name]:.3g}" for name in RATES)
            dates = (one[name] or "-" for name in ("full", "earliest", "latest"))
            count = str(one["count"])
            yield one["group"], count, one.get("resource", ""), *per_day, *dates


RATES = ("per_day", "per_day_lowest", "per_day_highest")

TREND = (
    "group", "fit", "short of", "per day", "lowest", "highest", "full on", "earliest", "latest",
)  # fmt: skip
"""Titles of the columns of the table with the rows of `trend_rows`."""

TREND_NOTE = (
    "fit, per day: standard instances; the range is that of the trend, 90 %; "
    "-: not within ten years"
)


def trend_title(trend: Json) -> str:
    """Return the title of the forecast."""
    days, since = trend["day_count"], trend["since"][:10]
    return f"Full with N+1 kept, by the trend of {days} days with data since {since}"


def _trend(trend: Json, page: Page) -> None:
    """Add to `page` a table with the day on which each group is full."""
    page.heading(trend_title(trend))
    table = Table("", *map(numeric, TREND[1:2]), TREND[2], *map(numeric, TREND[3:6]), *TREND[6:])
    for row in trend_rows(trend):
        table.add(*row)
    page.table(table)
    page.say(TREND_NOTE, tone="faint")
    for remark in trend_remarks(trend):
        page.say(remark)


def trend_remarks(trend: Json) -> Iterator[str]:
    """Yield why a group has no forecast, and which resource is used up before a group is full."""
    for one in trend["groups"]:
        if one["reason"]:
            yield f"{one['group']}: {one['reason']}"
        sooner = one.get("used_up_sooner")
        if sooner:
            yield (
                f"{one['group']}: {sooner['resource']} is used up on {sooner['date']}, before that "
                "day: the instances differ from the standard size (--standard-alloc, "
                "--disk-template)"
            )


def _purchases(purchases: list[Json], page: Page) -> None:
    """Add to `page` a table with the standard instances that fit after each purchase."""
    lasting = "days_gained" in purchases[0]
    what = "days" if lasting else "standard instances"
    page.heading(f"Purchases, by {what} gained per unit of cost")
    names = ("cost", "fit then", "gained", *(LASTING if lasting else ("per cost",)))
    table = Table("", *map(numeric, names), "where", *([] if lasting else ["the end"]))
    for one in purchases:
        gain, rate = gain_of(one)
        head = one["purchase"], f"{one['cost']:.12g}", str(one["count"]), gain
        if lasting:
            table.add(*head, *lasting_of(one), gained_in(one))
        else:
            table.add(*head, rate, gained_in(one), one["reason"])
    page.table(table)


LASTING = ("full on", "days gained", "days per cost")
"""Titles of the columns with the values of `lasting_of`."""


def lasting_of(purchase: Json) -> tuple[str, str, str]:
    """Return the date on which the groups of a purchase are full, and its gain, as texts.

    The texts are: the date, the days gained, and the days gained per unit of cost.
    """
    days, rate = purchase["days_gained"], purchase["days_per_cost"]
    if days is None:
        return purchase["full"] or "-", "-", "-"
    return purchase["full"] or "-", f"{days:.0f}", f"{rate:.4g}"


def gain_of(purchase: Json) -> tuple[str, str]:
    """Return the instances that a purchase gains, and the gain per unit of cost, as texts."""
    if purchase["gain"] is None:
        return "unknown", "unknown"
    return f"{purchase['gain']:+}", f"{purchase['gain_per_cost']:.4g}"


def gained_in(purchase: Json) -> str:
    """Return the groups that a purchase extends, with the instances that fit before and after it.

    The numbers of instances are left out if the time limit ended one of the counts.
    """
    if purchase["gain"] is None:
        return ", ".join(one["group"] for one in purchase["groups"])
    return ", ".join(
        f"{one['group']}: {one['count']} to {one['count_after']}" for one in purchase["groups"]
    )


def allocation_map(title: str, run: Json) -> Iterator[str]:
    """Yield a line with the name and the nodes of each new instance."""
    yield f"{title} allocation map"
    for instance in run["instances"]:
        yield f"  {instance['name']} {' '.join(instance['nodes'])}"


def _size(mib: float) -> str:
    """Return an amount of memory or disk in words: in MiB, or from 10 GiB on in GiB."""
    return f"{mib / GIB:.1f} GiB" if abs(mib) >= 10 * GIB else f"{mib:.0f} MiB"
