"""Folders that tests use."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["FIXTURES", "ROOT", "peer_data"]

ROOT = Path(__file__).parents[1]
"""The folder of the project."""

FIXTURES = ROOT / "fixtures"


def peer_data(pattern: str) -> list[Path]:
    """Return more text files of clusters, from the folder that a variable names, if it is set."""
    folder = os.environ.get("IALLOCATOR_PEER_DATA", "")
    return sorted(Path(folder).glob(pattern)) if folder else []
