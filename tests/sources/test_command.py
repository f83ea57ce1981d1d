"""Test other clusters, saved states and node lists on the command line."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import answer
from iallocator.documents.lists import instance_table
from iallocator.model.state import State
from iallocator.render.table import listed
from iallocator.sources.writer import write_text
from tests.architecture.test_startup import loaded as modules_loaded
from tests.builders import allocate, as_bytes, cluster, instance
from tests.command import Done, complaint, run
from tests.conformance.documents import KINDS, document
from tests.conformance.fairness import incomparable
from tests.conformance.oracle import HAIL
from tests.patience import PATIENCE
from tests.seeds import seeds

from .clusters import LIKE_HAIL, SMALL, generated, read

hail_only = pytest.mark.skipif(not HAIL.exists(), reason="hail is not installed")

WEB = instance("node1", "node2", memory=1024)


def request_file(tmp_path: Path, **changes: Any) -> Path:
    """Return the path of a file with a request for a new instance."""
    path = tmp_path / "request.json"
    path.write_bytes(as_bytes(allocate(cluster(nodes=3, instances={"web": WEB}), **changes)))
    return path


def good(done: Done) -> dict[str, Any]:
    """Return the response of a run; assert that it was successful."""
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_request_with_another_cluster_is_answered_for_that_cluster(tmp_path: Path) -> None:
    """A request with -t is answered for the cluster of the text file."""
    (tmp_path / "small.data").write_text(SMALL)
    done = run(str(request_file(tmp_path, disk_template="plain")), "-t", f"{tmp_path}/small.data")
    assert set(good(done)["result"]) <= {"node1", "node2"}


def test_request_with_a_simulated_cluster_is_answered_for_that_cluster(tmp_path: Path) -> None:
    """A request with --simulate is answered for the simulated cluster."""
    done = run(str(request_file(tmp_path)), "--simulate", "p,4,100g,16g,8")
    assert set(good(done)["result"]) <= {f"node-01-00{number}" for number in range(1, 5)}


def test_damaged_text_ends_with_one_line(tmp_path: Path) -> None:
    """A damaged text file is reported in one line with file, line and field, status 2."""
    path = tmp_path / "small.data"
    path.write_text(SMALL.replace("|51200|1|", "|lots|1|"))
    done = run(str(request_file(tmp_path)), "-t", str(path))
    assert complaint(done).startswith(f"{path}:6: disk: expected an integer")


def test_save_writes_the_states_before_and_after(tmp_path: Path) -> None:
    """-S writes the states before and after a request as readable text files."""
    base = tmp_path / "saved"
    response = good(run(str(request_file(tmp_path)), "-S", str(base)))
    before = read((tmp_path / "saved.pre-ialloc").read_text()).cluster
    after = read((tmp_path / "saved.post-ialloc").read_text()).cluster
    (new,) = {i.name for i in after.instances} - {i.name for i in before.instances}
    found = after.instance_named(new)
    assert found is not None
    assert after.node_names(found.nodes) == response["result"]


def test_save_to_an_unwritable_path_is_rejected(tmp_path: Path) -> None:
    """-S with a path that cannot be written is rejected by name."""
    done = run(str(request_file(tmp_path)), "-S", "/nowhere/saved")
    assert complaint(done).startswith("/nowhere/saved.pre-ialloc: No such file")


def test_print_nodes_shows_them_before_and_after_on_stderr(tmp_path: Path) -> None:
    """-p prints the nodes before and after a request to stderr."""
    done = run(str(request_file(tmp_path)), "-p")
    lines = done.stderr.decode().splitlines()
    good(done)
    units = "(memory in MiB, disk in GiB):"
    assert f"Initial cluster status {units}" in lines
    assert f"Final cluster status {units}" in lines
    assert sum(" node1 " in line for line in lines) == 4, "two lists each: they are too wide"


@pytest.mark.parametrize("option", ["-pname,pcnt", "--print-nodes=name,pcnt"])
def test_print_nodes_with_fields_shows_those_fields(option: str, tmp_path: Path) -> None:
    """--print-nodes=FIELDS prints the named fields."""
    done = run(str(request_file(tmp_path)), option)
    assert " Name  pcnt\n node1    1\n" in done.stderr.decode()


def test_print_nodes_with_a_plus_adds_fields(tmp_path: Path) -> None:
    """--print-nodes=+FIELDS prints the default fields and the named ones."""
    done = run("-p+plist,peermap", str(request_file(tmp_path)))
    headers = [line for line in done.stderr.decode().splitlines() if line.startswith(" F Name")]
    assert re.fullmatch(r" F Name  t_mem .* p_fdsk", headers[0])
    assert re.fullmatch(r" F Name  .*r_cpu .* lNet primaries +PeerMap", headers[1])


def test_print_nodes_with_an_unknown_field_is_rejected(tmp_path: Path) -> None:
    """--print-nodes with an unknown field is rejected with the known fields."""
    output = complaint(run(str(request_file(tmp_path)), "-pname,colour"))
    assert output.startswith("--print-nodes: expected fields out of status, name")
    assert output.endswith("got 'colour'")
    output = complaint(run(str(request_file(tmp_path)), "-p=nmae"))
    assert "got 'nmae' (did you mean nmem or name?)" in output


@pytest.mark.parametrize("command", ["balance", "capacity", "check"])
def test_print_nodes_with_an_unknown_field_leaves_stdout_empty(
    command: str, tmp_path: Path
) -> None:
    """--print-nodes with an unknown field prints nothing on stdout."""
    done = run(command, "-pname,colour", str(request_file(tmp_path)))
    assert complaint(done).startswith("--print-nodes: expected fields out of status, name")
    assert done.stdout == b""


def test_print_instances_shows_the_new_one_afterwards(tmp_path: Path) -> None:
    """--print-instances prints the new instance only in the list after the allocation."""
    done = run(str(request_file(tmp_path)), "--print-instances")
    before, after = done.stderr.decode().split("Final instance map (memory in MiB, disk in GiB):\n")
    title = "Initial instance map (memory in MiB, disk in GiB):"
    assert before.startswith(f"\n{title}\n F Name Pri_node Sec_node")
    names = [re.findall(r"^ R (\S+)", text, re.MULTILINE) for text in (before, after)]
    assert names == [["web"], ["new", "web"]]


def _hail(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(HAIL), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def _comparable_parts(kind: str, response: dict[str, Any]) -> Any:
    """Return the parts of a response that must equal those of hail."""
    result = response["result"]
    if response["success"] and kind in ("node-evacuate", "change-group"):
        result = [result[0], sorted(failed[0] for failed in result[1])]
    return response["success"], result


@hail_only
@pytest.mark.parametrize("kind", KINDS)
def test_request_with_another_cluster_is_answered_as_hail_does(kind: str, tmp_path: Path) -> None:
    """With ``--compat hail``, a request with -t is answered as by hail."""
    path, saved, compared = tmp_path / "request.json", tmp_path / "saved", 0
    for seed in seeds(8, 12):
        found = document(seed, kind)
        if incomparable(found, like_hail=True) or _diskless_moves(found, kind):
            continue
        path.write_text(json.dumps(found))
        _hail(str(path), "-S", str(saved))
        text = f"{saved}.pre-ialloc"
        theirs = json.loads(_hail(str(path), "-t", text).stdout)
        ours = json.loads(answer(path.read_bytes(), ["--compat=hail", "-t", text]))
        assert _comparable_parts(kind, ours) == _comparable_parts(kind, theirs), (kind, seed)
        compared += 1
    assert compared >= 4


def _diskless_moves(found: dict[str, Any], kind: str) -> bool:
    """Return whether hail would reject a diskless instance for lack of disk."""
    templates = {one["disk_template"] for one in found["instances"].values()}
    return kind == "change-group" and "diskless" in templates


@hail_only
@pytest.mark.parametrize("kind", ["relocate", "node-evacuate", "allocate-secondary"])
def test_node_list_is_that_of_hail(kind: str, tmp_path: Path) -> None:
    """The node lists of -p are those of hail, before and after a request."""
    path, compared = tmp_path / "request.json", 0
    for seed in seeds(8, 24):
        path.write_text(json.dumps(document(seed, kind)))
        theirs, ours = _hail(str(path), "-p"), run(str(path), "-p", "--compat=hail")
        answers = [json.loads(done.stdout) for done in (theirs, ours)]
        if not answers[0]["success"] or _comparable_parts(kind, answers[0]) != _comparable_parts(
            kind, answers[1]
        ):
            continue
        if {"Infinity", "NaN"} & set(theirs.stderr.split()):
            continue  # a dash here, and so another width
        assert _table(ours.stderr.decode()) == _table(theirs.stderr), (kind, seed)
        compared += 1
    assert compared >= 4


def _table(text: str) -> list[str]:
    """Return the lines of the node lists in the output of a command."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for line in lines if line.startswith(" ") and not line.startswith("  - ")]


@pytest.mark.skipif(not shutil.which("hbal"), reason="hbal is not installed")
def test_instance_list_is_that_of_hbal(tmp_path: Path) -> None:
    """The instance list is that of hbal, for a cluster with one group."""
    path, compared = tmp_path / "cluster.data", 0
    for seed in seeds(20, 30):
        cluster = generated(seed, "allocate", LIKE_HAIL)
        if len(cluster.groups) > 1 or not cluster.instances:
            continue
        state = State(cluster)
        path.write_text(write_text(cluster, state, backwards=True))
        command = ["hbal", "-t", str(path), "--print-instances", "-l", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
        theirs = done.stderr.split("Initial instance map:\n")[1].split("\n\n")[0]
        assert listed(instance_table(state, backwards=True), 0) == theirs.rstrip("\n") + "\n", seed
        compared += 1
    assert compared >= 5


@hail_only
@pytest.mark.parametrize("kind", KINDS)
def test_saved_states_are_those_of_hail(kind: str, tmp_path: Path) -> None:
    """The states saved by -S are those of hail, except free memory afterwards.

    hail does not update the free memory.
    """
    path, compared = tmp_path / "request.json", 0
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for seed in seeds(8, 15):
        path.write_text(json.dumps(document(seed, kind)))
        answers = [
            json.loads(_hail(str(path), "-S", str(theirs)).stdout),
            json.loads(run(str(path), "-S", str(ours), "--compat=hail").stdout),
        ]
        if not answers[0]["success"] or _comparable_parts(kind, answers[0]) != _comparable_parts(
            kind, answers[1]
        ):
            continue
        for moment in ("pre", "post"):
            saved = [Path(f"{base}.{moment}-ialloc").read_text() for base in (ours, theirs)]
            after = moment == "post"
            if after and not saved[1]:
                continue  # hail has no state after some of its answers
            assert _fields(saved[0], after) == _fields(saved[1], after), (kind, seed, moment)
        compared += 1
    assert compared >= 4


def _fields(text: str, after: bool) -> list[list[str]]:
    """Return the fields of every line, with the networks sorted.

    If `after` is true, the fields are without free memory, in any order: hail lists a single new
    instance first, several new instances last.
    """
    rows = [line.split("|") for line in text.splitlines()]
    for row in rows:
        if len(row) == 5:
            row[4] = ",".join(sorted(row[4].split(",")))
        if len(row) == 15 and after:
            row[3] = ""
    return sorted(rows) if after else rows


def test_explain_with_another_cluster_explains_for_that(tmp_path: Path) -> None:
    """`explain` with -t explains the answer for the cluster of the text file."""
    done = run("explain", str(request_file(tmp_path)), "--simulate", "p,4,100g,16g,8")
    assert done.returncode == 0
    assert b"node-01-00" in done.stdout


def test_compressed_request_is_answered(tmp_path: Path) -> None:
    """A request file can be compressed."""
    path = request_file(tmp_path)
    packed = tmp_path / "request.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert run(str(packed)).stdout == run(str(path)).stdout
    assert run("-", stdin=packed.read_bytes()).stdout == run(str(path)).stdout


def test_request_without_these_options_loads_no_sources() -> None:
    """A request without options for other sources does not import their modules."""
    raw = as_bytes(allocate(cluster(nodes=3, instances={"web": WEB})))
    unwanted = {"iallocator.sources", "iallocator.explain", "gzip", "decimal", "iallocator.replay"}
    assert not modules_loaded(raw) & unwanted
