"""The monitoring daemons, one on each node: reports as JSON over HTTP, for everybody to read."""

from __future__ import annotations

from iallocator.errors import RequestError, UsageError
from iallocator.wire.read import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["ask_daemons"]

PORT = 1815

CONNECT_SECONDS = 15.0
ANSWER_SECONDS = 60.0

AT_ONCE = 16
"""Daemons that are asked at a time."""


def ask_daemons(nodes: Sequence[str], report: str) -> dict[str, dict[str, Any] | None]:
    """Node -> its report called `report`; None from one that does not answer.

    Once one has not, the others that were not asked yet are not asked either.
    """
    try:
        import urllib3
    except ImportError:
        raise UsageError(
            "--mond needs the Python package urllib3: pip install 'iallocator[live]'"
        ) from None
    from concurrent.futures import ThreadPoolExecutor

    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS)
    pool = urllib3.PoolManager(num_pools=AT_ONCE, timeout=timeout, retries=False)
    silent: list[str] = []

    def ask(node: str) -> dict[str, Any] | None:
        if silent:
            return None
        try:
            answer = pool.request("GET", f"http://{node}:{PORT}/1/report/default/{report}")
            if answer.status == 200:
                return decode(answer.data)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, RequestError):
            pass  # who does not answer as expected does not answer: one report less
        silent.append(node)
        return None

    with ThreadPoolExecutor(AT_ONCE) as helpers:
        return dict(zip(nodes, helpers.map(ask, nodes)))
