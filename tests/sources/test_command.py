"""Other clusters, saved states and node lists on the command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import answer
from iallocator.model.state import State
from tests.builders import allocate, as_bytes, cluster, instance
from tests.conformance.documents import KINDS, document
from tests.conformance.oracle import HAIL
from tests.wire.command import Done, complaint, run

from .clusters import LIKE_HAIL, SMALL, generated, judged_otherwise, read

hail_only = pytest.mark.skipif(not HAIL.exists(), reason="hail is not installed")

WEB = instance("node1", "node2", memory=1024)


def request_file(tmp_path: Path, **changes: Any) -> Path:
    """A file with a request for a new instance."""
    path = tmp_path / "request.json"
    path.write_bytes(as_bytes(allocate(cluster(nodes=3, instances={"web": WEB}), **changes)))
    return path


def good(done: Done) -> dict[str, Any]:
    """The response of a run that went well."""
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_request_with_another_cluster_is_answered_for_that(tmp_path: Path) -> None:
    """The request comes from the document, the nodes from the text."""
    (tmp_path / "small.data").write_text(SMALL)
    done = run(str(request_file(tmp_path, disk_template="plain")), "-t", f"{tmp_path}/small.data")
    assert set(good(done)["result"]) <= {"node1", "node2"}


def test_request_with_a_simulated_cluster_is_answered_for_that(tmp_path: Path) -> None:
    """Nodes that do not exist can be tried out."""
    done = run(str(request_file(tmp_path)), "--simulate", "p,4,100g,16g,8")
    assert set(good(done)["result"]) <= {f"node-01-00{number}" for number in range(1, 5)}


def test_damaged_text_ends_with_one_line(tmp_path: Path) -> None:
    """File, line and field, exit status 2, nothing on stdout."""
    path = tmp_path / "small.data"
    path.write_text(SMALL.replace("|51200|1|", "|lots|1|"))
    done = run(str(request_file(tmp_path)), "-t", str(path))
    assert complaint(done).startswith(f"{path}:6: disk: expected an integer")


def test_save_writes_the_states_before_and_after(tmp_path: Path) -> None:
    """Both files can be read again; the second has the new instance."""
    base = tmp_path / "saved"
    response = good(run(str(request_file(tmp_path)), "-S", str(base)))
    before = read((tmp_path / "saved.pre-ialloc").read_text()).cluster
    after = read((tmp_path / "saved.post-ialloc").read_text()).cluster
    (new,) = {i.name for i in after.instances} - {i.name for i in before.instances}
    found = after.instance_named(new)
    assert found is not None
    assert after.node_names(found.nodes) == response["result"]


def test_save_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    done = run(str(request_file(tmp_path)), "-S", "/nowhere/saved")
    assert complaint(done).startswith("/nowhere/saved.pre-ialloc: No such file")


def test_print_nodes_shows_them_before_and_after_on_stderr(tmp_path: Path) -> None:
    """The response stays alone on stdout."""
    done = run(str(request_file(tmp_path)), "-p")
    lines = done.stderr.decode().splitlines()
    good(done)
    assert "Initial cluster status:" in lines
    assert "Final cluster status:" in lines
    assert sum(" node1 " in line for line in lines) == 2


@pytest.mark.parametrize("option", ["-pname,pcnt", "--print-nodes=name,pcnt"])
def test_print_nodes_with_fields_shows_these(option: str, tmp_path: Path) -> None:
    """The value is attached to either form of the option."""
    done = run(str(request_file(tmp_path)), option)
    assert " Name  pcnt\n node1    1\n" in done.stderr.decode()


def test_print_nodes_with_a_plus_adds_fields(tmp_path: Path) -> None:
    """The usual fields, and these."""
    done = run("-p+plist,peermap", str(request_file(tmp_path)))
    header = done.stderr.decode().splitlines()[2]
    assert re.fullmatch(r" F Name  t_mem .* lNet primaries +PeerMap", header)


def test_print_nodes_with_an_unknown_field_is_refused(tmp_path: Path) -> None:
    """The message lists those that there are."""
    said = complaint(run(str(request_file(tmp_path)), "-pname,colour"))
    assert said.startswith("--print-nodes: expected fields out of status, name")
    assert said.endswith("got 'colour'")


def test_print_instances_shows_the_new_one_at_the_end(tmp_path: Path) -> None:
    """Before and after differ by what the request adds."""
    done = run(str(request_file(tmp_path)), "--print-instances")
    before, after = done.stderr.decode().split("Final instance map:\n")
    assert before.startswith("\nInitial instance map:\n F Name Pri_node Sec_node")
    assert len(after.splitlines()) == len(before.splitlines())


def _hail(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(HAIL), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _essence(kind: str, response: dict[str, Any]) -> Any:
    """What must be equal: with several instances the words about failed ones may differ."""
    result = response["result"]
    if response["success"] and kind in ("node-evacuate", "change-group"):
        result = [result[0], sorted(failed[0] for failed in result[1])]
    return response["success"], result


@hail_only
@pytest.mark.parametrize("kind", KINDS)
def test_request_with_another_cluster_is_answered_as_hail_does(kind: str, tmp_path: Path) -> None:
    """Document and text in a pair, ``--compat hail``: the same instances on the same nodes."""
    path, saved, compared = tmp_path / "request.json", tmp_path / "saved", 0
    for seed in range(12):
        found = document(seed, kind)
        state = State(generated(seed, kind, LIKE_HAIL))
        if judged_otherwise(state) or _diskless_moves(found, kind):
            continue
        path.write_text(json.dumps(found))
        _hail(str(path), "-S", str(saved))
        text = f"{saved}.pre-ialloc"
        theirs = json.loads(_hail(str(path), "-t", text).stdout)
        ours = json.loads(answer(path.read_bytes(), ["--compat=hail", "-t", text]))
        assert _essence(kind, ours) == _essence(kind, theirs), (kind, seed)
        compared += 1
    assert compared >= 4


def _diskless_moves(found: dict[str, Any], kind: str) -> bool:
    """Tell whether hail would find a disk of no size too small where there is none at all."""
    templates = {one["disk_template"] for one in found["instances"].values()}
    return kind == "change-group" and "diskless" in templates


@hail_only
@pytest.mark.parametrize("kind", ["relocate", "node-evacuate", "allocate-secondary"])
def test_node_list_is_that_of_hail(kind: str, tmp_path: Path) -> None:
    """The same lines, before and after, for the same answer."""
    path, compared = tmp_path / "request.json", 0
    for seed in range(12):
        path.write_text(json.dumps(document(seed, kind)))
        theirs, ours = _hail(str(path), "-p"), run(str(path), "-p", "--compat=hail")
        answers = [json.loads(done.stdout) for done in (theirs, ours)]
        if not answers[0]["success"] or _essence(kind, answers[0]) != _essence(kind, answers[1]):
            continue
        assert _table(ours.stderr.decode()) == _table(theirs.stderr), (kind, seed)
        compared += 1
    assert compared >= 4


def _table(text: str) -> list[str]:
    """The lines of node lists, warnings left out."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for line in lines if line.startswith(" ") and not line.startswith("  - ")]
