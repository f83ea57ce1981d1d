"""Make the table of docs/reference/strategies.md: how each strategy answers one request.

``python -m tests.ranking.side_by_side`` prints it.
"""

from __future__ import annotations

import json
from pathlib import Path

from iallocator.cli import answer
from iallocator.ranking import STRATEGIES

REQUEST = Path(__file__).parents[2] / "fixtures/strategies/strategies-side-by-side/request.json"


def table() -> list[str]:
    """Return the lines of the table: a row for each strategy, a column for each instance."""
    raw = REQUEST.read_bytes()
    names = [one["name"] for one in json.loads(raw)["request"]["instances"]]
    lines = [f"| strategy | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for strategy in STRATEGIES:
        response = json.loads(answer(raw, ["--exact-search=no", f"--strategy={strategy}"]))
        nodes = {name: " / ".join(found) for name, found in response["result"][0]}
        cells = [nodes.get(name, "not placed") for name in names]
        lines.append(f"| `{strategy}` | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
