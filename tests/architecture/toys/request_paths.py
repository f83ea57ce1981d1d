"""Check on every path that requests of the toy type `empty-node` are answered.

Run by `test_toys.py` with a copy of the package that has the toy type: all instances leave the
named node. The script exits with an error if a path does not know the type.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.builders import Json, as_bytes, cluster, rbd
from tests.command import printed, respond, run
from tests.schemas import validator


def request(node: str = "node1") -> Json:
    """Return a request to empty a node that runs three instances."""
    held = {f"i{k}": rbd("node1", memory=300) for k in range(3)}
    made = cluster(instances=held)
    made["request"] = {"type": "empty-node", "node": node}
    return made


def answers() -> None:
    """Check that the answer equals that of an evacuation, and that errors name the member."""
    answer = respond(request(), "--n1=off")
    assert len(answer["result"][0]) == 3, answer
    validator("response.schema.json#/$defs/empty-node").validate(answer)
    wrong = {**request(), "request": {"type": "empty-node", "node": 3}}
    done = run(stdin=as_bytes(wrong))
    assert (done.returncode, b"request/node" in done.stderr) == (2, True), done
    assert run("--validate", stdin=as_bytes(request())).returncode == 0
    done = run("--validate", stdin=as_bytes(wrong))
    assert (done.returncode, b"request/node" in done.stderr) == (2, True), done
    done = run("--validate", stdin=as_bytes({**request(), "request": {"type": "empty-node"}}))
    assert (done.returncode, b"request/node" in done.stderr) == (2, True), done


def around() -> None:
    """Check the explanation, the saved state, the log, and captured calls with their replay."""
    found = json.loads(printed("explain", "--json", document=request()))
    assert {one["instance"] for one in found["decisions"]} == {"i0", "i1", "i2"}, found
    with TemporaryDirectory() as folder:
        calls = Path(folder) / "calls"
        calls.mkdir()
        options = (f"--save-cluster={folder}/state", f"--capture={calls}", f"--log={folder}/log")
        assert run(*options, stdin=as_bytes(request())).returncode == 0
        after = (Path(folder) / "state.post-ialloc").read_text(encoding="utf-8")
        lines = [line.split("|") for line in after.splitlines() if line.startswith("i")]
        assert len(lines) == 3, lines
        assert all(line[6] != "node1" for line in lines), lines
        assert "empty-node" in (Path(folder) / "log").read_text(encoding="utf-8")
        listed = printed("history", str(calls), "--type=empty-node")
        assert "node1" in listed, listed
        assert run("replay", str(calls)).returncode == 0


def room() -> None:
    """Check that make-room moves other instances if the request does not fit."""
    full = request()
    for name in ("node2", "node3"):
        full["nodes"][name]["free_memory"] = 100
    answer = respond(full, "--n1=off", "--make-room=2")
    assert len(answer["result"][0]) + len(answer["result"][1]) == 3, answer
    done = run("make-room", "--n1=off", stdin=as_bytes(full))
    assert done.returncode in (0, 1), done


if __name__ == "__main__":
    for path in (answers, around, room):
        path()
