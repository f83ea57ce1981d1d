"""Test that standard output has only the answer, even if libraries print."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from iallocator.commands import COMMANDS, options_of
from iallocator.handlers import HANDLERS
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, leave, rbd
from tests.command import COMMAND, ENVIRONMENT, complaint, run, run_process
from tests.execution.running import running, shared_cluster
from tests.paths import ROOT
from tests.solver.moving import evacuation, group_change

from .test_streams import closing

pytest.importorskip("highspy")

LOUD = """
import os, sys

class Loud:
    "Print to descriptor 1, as code in C does, when a library is loaded and when it is used."

    @staticmethod
    def find_spec(name, path, target=None):
        if name == "iallocator.cli":  # what comes first where nothing else is needed
            os.write(1, b"LOUD start\\n")
        if "." in name or name in sys.stdlib_module_names or name == "iallocator":
            return None
        os.write(1, f"LOUD library {name}\\n".encode())
        os.system("echo LOUD child; ls -l /proc/self/fd")
        if name == "highspy":
            sys.meta_path.remove(Loud)
            import highspy
            create = highspy.Highs.__init__

            def loudly(solver):
                os.write(1, b"LOUD solver\\n")
                create(solver)

            highspy.Highs.__init__ = loudly
            sys.meta_path.insert(0, Loud)
            return highspy.__spec__
        return None

sys.meta_path.insert(0, Loud)
"""
"""A ``sitecustomize.py`` that lets libraries and their child processes print."""


class Case(NamedTuple):
    """A command line, the content of the file ``doc``, and whether the solver is used."""

    words: str
    document: Json
    solver: bool = False


def unbalanced() -> Json:
    """Return a full node and two nodes with 3 GiB of free memory each, on shared storage."""
    instances = {
        f"i{number}": rbd("node1", memory=memory)
        for number, memory in enumerate((1500, 1500, 3072))
    }
    document = cluster({"east": 1, "west": 2}, memory=16384, instances=instances)
    for name in ("node2", "node3"):
        leave(document["nodes"][name], 3073)
    return document


def batch() -> Json:
    """Return a batch that fits only if its two small instances share a node."""
    document = unbalanced()
    wanted = []
    for number, memory in enumerate((1500, 1500, 3072)):
        one = allocate_rbd(document, memory=memory)["request"]
        del one["type"]
        wanted.append(one | {"name": f"new{number}", "group_name": "west"})
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def secondaries() -> Json:
    """Return drbd instances with secondaries to be moved to two nearly full nodes."""
    instances = {
        f"i{number}": instance("node2", "node1", memory=memory)
        for number, memory in enumerate((1500, 1500, 3072))
    }
    document = cluster(4, memory=16384, instances=instances)
    for name in ("node3", "node4"):
        leave(document["nodes"][name], 3073)
    return document | {"request": {"type": "multi-evacuate", "evac_nodes": ["node1"]}}


def needs_joint_packing(**changes: Any) -> Json:
    """Return a group that can only be emptied by joint packing of memory and cpus."""
    instances = {
        name: rbd("node1", memory=memory, vcpus=vcpus)
        for name, memory, vcpus in (("a", 3000, 17), ("b", 3000, 17), ("c", 1000, 15))
    }
    kept = {f"w{k}": rbd(f"node{k}", memory=3192) for k in (2, 3)}
    document = cluster({"east": 1, "west": 2}, instances=instances | kept)
    document["nodes"]["node1"] |= changes
    return document


def fixture(path: str) -> Json:
    """Return the stored document at `path`."""
    found: Json = json.loads((ROOT / "fixtures" / path / "request.json").read_text())
    return found


def with_request(document: Json, **request: Any) -> Json:
    """Return `document` with a request that has the members `request`."""
    return document | {"request": request}


DRBD = cluster(3, instances={"i1": instance("node1", "node2")})
PLAIN = cluster(3, instances={"i1": instance("node1", disk_template="plain")})
SQUEEZE = str(ROOT / "fixtures/squeeze/survivable/cluster.data")

REQUESTS = {
    "allocate": Case("doc", allocate(cluster(400), disk_template="drbd")),
    "multi-allocate": Case("--n1=off doc", batch(), solver=True),
    "allocate-secondary": Case("doc", with_request(PLAIN, type="allocate-secondary", name="i1")),
    "relocate": Case(
        "doc",
        with_request(DRBD, type="relocate", name="i1", required_nodes=1, relocate_from=["node2"],
              disk_space_total=1152),
    ),
    "node-evacuate": Case("doc", evacuation(0, "rbd", "all"), solver=True),
    "change-group": Case("doc", group_change(0, "rbd", ""), solver=True),
    "multi-evacuate": Case("doc", secondaries(), solver=True),
}  # fmt: skip
"""Type of request -> a document; one that needs exact search if the type has it."""

CASES = {
    "ask": Case("ask evacuate node1 --n1=off doc", evacuation(0, "rbd", "all"), solver=True),
    "balance": Case("balance doc", unbalanced()),
    "balance-groups": Case("balance-groups --n1=off doc", unbalanced()),
    "capacity": Case("capacity doc", unbalanced(), solver=True),
    "check": Case("check --failures=2 doc", cluster(3, instances={
        f"i{number}": rbd("node1", memory=2600) for number in range(3)
    })),
    "compress": Case("compress --n1=off doc", needs_joint_packing(), solver=True),
    "config": Case("config doc", batch()),
    "constraints": Case("constraints --all doc", batch()),
    "explain": Case("explain --n1=off doc", batch(), solver=True),
    "history": Case("history calls", batch()),
    "maintain": Case("maintain doc", cluster(3, instances={"i1": instance("node1", "node2")})),
    "make-room": Case("make-room --make-room=2 doc", evacuation(0, "rbd", "all"), solver=True),
    "metrics": Case("metrics doc", unbalanced(), solver=True),
    "place": Case(
        "place --strategy=pacemaker-utilization doc", fixture("place/example-for-all"), solver=True
    ),
    "reboot": Case("reboot doc", cluster(3, instances={"i1": instance("node1", "node2")})),
    "redistribute": Case(
        "redistribute --n1=off doc", needs_joint_packing(offline=True), solver=True
    ),
    "repair": Case("repair doc", secondaries()),
    "replay": Case("replay case", batch(), solver=True),
    "rescue": Case("rescue node1 doc", secondaries()),
    "report": Case("report doc", batch()),
    "show": Case("show doc", batch()),
    "snapshot": Case("snapshot doc", batch()),
    "squeeze": Case(f"squeeze -t {SQUEEZE}", {}, solver=True),
}  # fmt: skip
"""Command -> a document; it needs exact search if the command has exact search."""


def forms() -> dict[str, tuple[str, ...]]:
    """Return the arguments of every case, for text and for JSON."""
    found = {}
    for name, case in (REQUESTS | CASES).items():
        words = tuple(case.words.split())
        found[name] = words
        if name in CASES and any("--json" in one.names for one in options_of(name)):
            found[f"{name} --json"] = (words[0], "--json", *words[1:])
    return found


FORMS = forms()


def case_of(form: str) -> Case:
    return (REQUESTS | CASES)[form.removesuffix(" --json")]


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which each library prints when it is imported or used."""
    folder = tmp_path_factory.mktemp("loud")
    (folder / "sitecustomize.py").write_text(LOUD)
    return {**ENVIRONMENT, "PYTHONPATH": f"{folder}:{ROOT}", "PATH": os.environ["PATH"]}


def lay_out(document: Json, folder: Path) -> None:
    """Write `document` as a file, a stored case, and a captured call."""
    (folder / "doc").write_bytes(as_bytes(document))
    (folder / "case").mkdir()
    shutil.copy(folder / "doc", folder / "case/request.json")
    (folder / "calls").mkdir()
    if "request" in document:
        run("--capture=calls", "doc", cwd=folder)


def test_every_request_type_and_every_command_has_a_case() -> None:
    """Every type of request and every command has a case in this module."""
    assert REQUESTS.keys() == HANDLERS.keys()
    assert CASES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("form", FORMS)
def test_stdout_with_loud_libraries_is_the_answer(
    form: str, tmp_path: Path, loud: dict[str, str]
) -> None:
    """With printing libraries, stdout has the bytes that it has without them."""
    case = case_of(form)
    lay_out(case.document, tmp_path)
    done = run_process(*FORMS[form], cwd=tmp_path, env=loud)
    expected = run(*FORMS[form], cwd=tmp_path)
    assert done.stdout == expected.stdout
    assert done.returncode == expected.returncode
    assert done.stdout.strip()
    assert b"LOUD start" in done.stderr
    assert (b"LOUD solver" in done.stderr) == case.solver
    if form in REQUESTS or form.endswith("--json"):
        json.loads(done.stdout)


@pytest.mark.parametrize("start", ["bin/iallocator", "iallocator/__main__.py"])
def test_stdout_of_each_script_is_the_answer(start: str, loud: dict[str, str]) -> None:
    """The installed scripts and ``python -m`` print only the answer on stdout."""
    words = ["-m", "iallocator"] if start.endswith("__main__.py") else [str(ROOT / start)]
    done = subprocess.run(
        [sys.executable, *words, "--n1=off"], input=as_bytes(batch()), env=loud, check=True,
        capture_output=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["success"]
    assert b"LOUD solver" in done.stderr


def test_executed_plan_is_the_only_thing_on_stdout(tmp_path: Path, loud: dict[str, str]) -> None:
    """`balance -X --json` prints only the document on stdout, with printing libraries."""
    with running(tmp_path, shared_cluster()) as scenario:
        done = run_process(
            "balance", "--json", "-X", f"-L{scenario.path}", f"--journal={tmp_path}/journal",
            cwd=tmp_path, env=loud | {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
    assert b"LOUD library" in done.stderr
    assert json.loads(done.stdout)["execution"]


def test_solver_prints_nothing_in_a_program_that_imports_the_package() -> None:
    """The solver prints nothing on stdout of a program that imports the package."""
    script = "import sys; from iallocator.cli import answer; answer(sys.stdin.buffer.read())"
    raw = as_bytes(evacuation(0, "rbd", "all"))
    done = subprocess.run(
        [sys.executable, "-c", script], input=raw, env=ENVIRONMENT, check=True, capture_output=True
    )
    assert done.stdout == done.stderr == b""


def test_messages_of_the_solver_are_not_on_stderr() -> None:
    """Messages of the solver are not printed on stderr."""
    done = run_process("--n1=off", "-", stdin=as_bytes(batch()))
    assert json.loads(done.stdout)["success"]
    assert done.stderr == b""


def test_child_process_does_not_inherit_stdout(loud: dict[str, str]) -> None:
    """A child process of a library does not inherit the stdout of the program."""
    reader, writer = os.pipe()
    try:
        name = os.readlink(f"/proc/self/fd/{writer}")
        done = run_process(
            "--n1=off", "-", stdin=as_bytes(batch()), env=loud, stdout=writer,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert b"LOUD child" in done.stderr
        assert b" -> " in done.stderr
        assert name.encode() not in done.stderr
        assert json.loads(os.read(reader, 1 << 16))["success"]
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("closed", [("stderr",), ("stdin",), ("stdin", "stderr")])
def test_stdout_is_the_answer_where_other_streams_are_closed(
    closed: tuple[str, ...], tmp_path: Path, loud: dict[str, str]
) -> None:
    """If other streams are closed, stdout has only the answer."""
    lay_out(batch(), tmp_path)
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                               "stderr": subprocess.PIPE}  # fmt: skip
    done = subprocess.run(
        [*COMMAND, "--n1=off", "--log=log", "doc"], cwd=tmp_path, env=loud, check=False,
        **{**streams, **closing(*closed)},
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads(done.stdout)["success"]
    assert b"LOUD" not in (tmp_path / "log").read_bytes()


def test_closed_stdout_is_reported_and_no_file_takes_its_place(
    tmp_path: Path, loud: dict[str, str]
) -> None:
    """If stdout is closed, the status is 1, and no other file gets the answer."""
    lay_out(batch(), tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        [*COMMAND, "--n1=off", "--log=log", "doc"], cwd=tmp_path, env=loud, check=False,
        stderr=subprocess.PIPE, **closing("stdout"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"iallocator: standard output is closed\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_full_device_is_reported_although_descriptor_1_has_room(loud: dict[str, str]) -> None:
    """If stdout is a full device, that is reported with status 1."""
    with open("/dev/full", "w") as full:
        done = run_process(
            "--n1=off", "-", stdin=as_bytes(batch()), env=loud, stdout=full,
            stderr=subprocess.PIPE,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"iallocator: standard output: No space left on device\n" in done.stderr


def test_closed_pipe_on_stdout_is_status_1(loud: dict[str, str]) -> None:
    """If stdout is a closed pipe, the status is 1 without a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    done = run_process(
        "--n1=off", "-", stdin=as_bytes(batch()), env=loud, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert done.returncode == 1
    assert b"iallocator: standard output: Broken pipe\n" in done.stderr
    assert b"Traceback" not in done.stderr


def test_stdout_and_stderr_may_be_the_same_file(tmp_path: Path) -> None:
    """With ``2>&1``, the answer is complete and follows the warnings."""
    lay_out(evacuation(0, "rbd", "all"), tmp_path)
    done = run_process("-v", "doc", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout.startswith(b"Warning: cluster has inconsistent data")
    assert json.loads(done.stdout.splitlines()[-1])["success"]


def on_terminal(words: list[str], folder: Path, name: str) -> bytes:
    """Return the text printed on a terminal by the stream `name`."""
    leader, follower = pty.openpty()
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    streams[name] = follower
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, **streams
    )
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 1 << 16):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return shown if name == "stdout" else out


@pytest.mark.parametrize(("name", "coloured"), [("stdout", True), ("stderr", False)])
def test_colour_depends_on_stdout_and_not_on_stderr(
    name: str, coloured: bool, tmp_path: Path
) -> None:
    """Colours are printed if stdout is a terminal, whatever stderr is."""
    lay_out(batch(), tmp_path)
    assert (b"\x1b[" in on_terminal(["show", "doc"], tmp_path, name)) == coloured


def test_plan_on_a_terminal_has_bold_headings(tmp_path: Path) -> None:
    """The headings of a plan are bold on a terminal."""
    lay_out(batch(), tmp_path)
    assert b"\x1b[1m" in on_terminal(["compress", "doc"], tmp_path, "stdout")


WITH_PAGE = ("balance", "reboot", "compress", "repair", "capacity", "check", "explain", "report",
             "ask evacuate node1")  # fmt: skip


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/proc/self/fd/1"])
@pytest.mark.parametrize("words", WITH_PAGE)
def test_page_on_stdout_is_the_only_output_there(words: str, name: str, tmp_path: Path) -> None:
    """`--html=-` and `--html=/dev/stdout` print only the page on stdout."""
    pytest.importorskip("jinja2")
    lay_out(evacuation(0, "rbd", "all"), tmp_path)
    done = run_process(*words.split(), f"--html={name}", "doc", cwd=tmp_path)
    assert done.returncode in (0, 1)
    assert done.stdout.startswith(b"<!doctype html>")
    assert done.stdout.endswith(b"</html>\n\n") or done.stdout.endswith(b"</html>\n")


@pytest.mark.parametrize(
    ("words", "option", "other"),
    [
        ("balance --json --html=-", "--html", "--json"),
        ("balance --json --graph", "--graph", "--json"),
        ("balance --json --graph=/dev/stdout", "--graph", "--json"),
        ("balance --graph --html=/dev/stdout", "--html", "--graph"),
        ("balance -C --html=-", "--html", "--print-commands"),
        ("balance -X -L --html=-", "--html", "-X"),
        ("check --machine-readable --html=-", "--html", "--machine-readable"),
        ("capacity --json --html=-", "--html", "--json"),
        ("repair --json --html=-", "--html", "--json"),
        ("explain --json --html=-", "--html", "--json"),
        ("explain --json --graph=-", "--graph", "--json"),
        ("ask evacuate node1 --json --html=-", "--html", "--json"),
    ],
)
def test_two_documents_on_stdout_are_rejected(words: str, option: str, other: str) -> None:
    """Two documents for stdout are rejected."""
    document = as_bytes(evacuation(0, "rbd", "all"))
    message = complaint(run(*words.split(), "-", stdin=document))
    assert (
        message == f"{option}: expected the name of a file: {other} writes to standard output, too"
    )


def test_output_file_named_stdout_is_written_to_stdout(
    tmp_path: Path, loud: dict[str, str]
) -> None:
    """With `--graph=/dev/stdout`, the drawing follows the plan, if stdout is a pipe or a file."""
    lay_out(evacuation(0, "rbd", "all"), tmp_path)
    for target in (subprocess.PIPE, (tmp_path / "out").open("wb")):
        done = run_process(
            "balance", "--graph=/dev/stdout", "doc", cwd=tmp_path, env=loud, stdout=target,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        message = done.stdout if target == subprocess.PIPE else (tmp_path / "out").read_bytes()
        assert b"\n\nGroups\n" in message.partition(b"digraph")[0]
        assert message.endswith(b"}\n")
        assert b"digraph transition" in message
        assert b"digraph" not in done.stderr


def test_output_file_may_be_a_pipe(tmp_path: Path) -> None:
    """An output file may be a pipe, as in ``--graph=>(dot)``."""
    lay_out(evacuation(0, "rbd", "all"), tmp_path)
    reader, writer = os.pipe()
    done = run_process(
        "balance", "--json", f"--graph=/dev/fd/{writer}", "doc", cwd=tmp_path, pass_fds=(writer,)
    )
    os.close(writer)
    assert json.loads(done.stdout)
    with open(reader, "rb") as drawn:
        assert drawn.read().startswith(b"digraph transition")
