"""What host names have in common, and tables therefore leave out."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["domain_of"]


def domain_of(names: Iterable[str]) -> str:
    """What all `names` end with from their first dot on (``.example.com``), or ""."""
    domains = {name.partition(".")[2] for name in names}
    return "." + domains.pop() if len(domains) == 1 and "" not in domains else ""
