"""Check that the toy option `--note WORD` has effect wherever it can be set.

Run by `test_toys.py` with a copy of the package that has the toy option: it ends `info` with a
word. The script exits with an error if a way to set the option is ignored, or a wrong value
accepted.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.builders import Json, allocate_rbd, as_bytes, cluster
from tests.command import complaint, printed, respond, run


def request(**members: object) -> Json:
    """Return a request to allocate, with the further members `members`."""
    made = allocate_rbd(cluster(), memory=100)
    made["request"] |= members
    return made


def ways() -> None:
    """Check the precedence of option, request key, tag of the group, and tag of the cluster."""
    assert not respond(request())["info"].endswith(("red", "blue"))
    assert respond(request(), "--note=red")["info"].endswith("; red")
    assert respond(request(note="blue"))["info"].endswith("; blue")
    assert respond(request(note="blue"), "--note", "red")["info"].endswith("; red")
    tagged = request()
    tagged["cluster_tags"] = ["iallocator:note:red"]
    assert respond(tagged)["info"].endswith("; red")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "conf"
        file.write_text('note = "blue"\n', encoding="utf-8")
        done = run(f"--config={file}", stdin=as_bytes(request()))
        assert json.loads(done.stdout)["info"].endswith("; blue"), done
        planned = run("check", f"--config={file}", stdin=as_bytes(cluster()))
        assert planned.returncode == 0, planned.stderr  # a file is for requests and commands


def words() -> None:
    """Check the help, effective settings, validation, explanation, and rejected values."""
    assert "end info with a word" in printed("help", "--all")
    assert "request" in printed("config", document=request(note="blue")).split("note")[1][:60]
    assert "red" in json.dumps(json.loads(printed("explain", "--note=red", "--json",
                                                  document=request())))  # fmt: skip
    assert run("--validate", stdin=as_bytes(request(note="blue"))).returncode == 0
    assert run("--validate", stdin=as_bytes(request(note="green"))).returncode == 2
    for wrong in (["--note=green"], ["--note"]):
        assert run(*wrong, stdin=as_bytes(request())).returncode == 2, wrong
    assert run(stdin=as_bytes(request(note="green"))).returncode == 2
    rejected = complaint(run("balance", "--note=red", stdin=as_bytes(cluster())))
    assert "affects only the answer to a request" in rejected, rejected


if __name__ == "__main__":
    for path in (ways, words):
        path()
