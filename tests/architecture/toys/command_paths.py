"""Check that the toy planner `shift` and its command have all that planners have.

Run by `test_toys.py` with a copy of the package that has the toy: a plan that moves one instance to
the first other node that accepts it. The script exits with an error if something is missing.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.builders import Json, as_bytes, cluster, rbd
from tests.command import plan_of, printed, run


def scenario(memory: int = 500, **members: Json) -> Json:
    """Return three nodes; the only instance, of `memory` MiB, is on the second one."""
    held = {"i0": rbd("node2", memory=memory)}
    return cluster(nodes=3, instances=held, changes=members)


def tight() -> None:
    """Check that no plan moves an instance to a drained node, or to one that lacks memory."""
    small = {"total_memory": 600, "free_memory": 300}
    assert [m["to"] for m in plan_of("shift", scenario(node1=small))["moves"]] == [["node3"]]
    drained = {"drained": True}
    assert [m["to"] for m in plan_of("shift", scenario(node1=drained))["moves"]] == [["node3"]]
    nothing = plan_of("shift", scenario(node1=drained, node3=small))
    assert (nothing["moves"], nothing["reason"]) == ([], "no instance can move")


def shown() -> None:
    """Check the plan as table, document, script, drawing and page, with scores and transition."""
    plan = plan_of("shift", scenario())
    assert (plan["command"], [m["to"] for m in plan["moves"]]) == ("shift", [["node1"]])
    assert [step["instance"] for step in plan["transition"]["steps"]] == ["i0"]
    assert plan["scores"]["before"] == plan["moves"][0]["score"] == plan["scores"]["after"]
    text = printed("shift", "--verify-plan", document=scenario())
    assert "i0" in text, text
    assert "Verified" in text, text
    assert "gnt-instance migrate" in printed("shift", "-C", document=scenario())
    assert "digraph" in printed("shift", "--graph", document=scenario())
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        printed("shift", f"--html={page}", f"--save-cluster={folder}/saved", document=scenario())
        assert "i0" in page.read_text(encoding="utf-8")
        assert (Path(folder) / "saved.planned").is_file()


def options() -> None:
    """Check that the toy has help and the options of all planners, and rejects other options."""
    assert "one instance moved to another node" in printed("--help")
    assert "iallocator shift" in printed("shift", "--help")
    assert run("shift", "--n1=strict", "-p", stdin=as_bytes(scenario())).returncode == 0
    assert run("shift", "--top=3", stdin=as_bytes(scenario())).returncode == 2
    rejected = run("shift", "-X", stdin=as_bytes(scenario()))
    assert (rejected.returncode, b"-L" in rejected.stderr) == (2, True), rejected


if __name__ == "__main__":
    for path in (tight, shown, options):
        path()
