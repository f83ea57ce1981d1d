"""Show metrics as text, in a form that is valid as OpenMetrics and for Prometheus' text format.

The textfile collector of the node exporter reads Prometheus' text format, in which lines such as
``# EOF`` are comments. The two formats name the family of a counter differently, so a counter is
written without its type.
"""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.render.table import Page

__all__ = ["lines_of", "metrics"]


def metrics(document: Json, facts: Json, page: Page) -> None:
    """Add the metrics of `document` to `page` as lines, unless `facts` name a file for them."""
    if not facts["file"]:
        for line in lines_of(document["metrics"]):
            page.verbatim(line)


def lines_of(metrics: list[Json]) -> Iterator[str]:
    """Yield the lines of `metrics`, and a last line that marks the end of the text."""
    for metric in metrics:
        name = metric["name"]
        yield f"# HELP {name} {_escaped(metric['help'])}"
        if metric["type"]:
            yield f"# TYPE {name} {metric['type']}"
        for sample in metric["samples"]:
            labels = ",".join(
                f'{label}="{_escaped(text, quote=True)}"'
                for label, text in sample["labels"].items()
            )
            labels = f"{{{labels}}}" if labels else ""
            suffix = "_count" if "sum" in sample else ""
            yield f"{name}{suffix}{labels} {_number(sample['value'])}"
            if "sum" in sample:
                yield f"{name}_sum{labels} {_number(sample['sum'])}"
    yield "# EOF"


def _escaped(text: str, quote: bool = False) -> str:
    """Return `text` with the escapes of the format for backslashes, line feeds and quotes."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quote else escaped


def _number(value: float) -> str:
    """Return a number in its shortest form; infinite numbers are ``+Inf`` or ``-Inf``."""
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
