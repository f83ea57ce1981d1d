"""Check that the toy column `memory` is shown wherever the moves of a plan are.

Run by `test_toys.py` with a copy of the package that has the toy column. The script exits with an
error if the text, the JSON document or the page lacks the column.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.builders import cluster, instance
from tests.command import plan_of, printed

DOCUMENT = cluster(4, instances={f"i{k}": instance("node1", "node2", memory=1777) for k in (1, 2)})


def columns() -> None:
    """Check the text, the JSON document and the page of a plan."""
    found = plan_of("balance", DOCUMENT)
    assert {move["memory_mib"] for move in found["moves"]} == {1777}
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        text = printed("balance", f"--html={page}", "-", document=DOCUMENT)
        html = page.read_text(encoding="utf-8")
    (titles,) = (line for line in text.splitlines() if "GiB copied" in line)
    assert "memory" in titles, text
    assert "1777" in text, text
    table = html[html.index("By instance") : html.index("By node")]
    assert "Memory" in table, table
    assert "1777" in table, table


if __name__ == "__main__":
    columns()
