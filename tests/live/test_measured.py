"""Test the loads of monitoring daemons: in plans, for the placement key #LOAD, or unused."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.sources.live import measured
from tests.aliases import Capture
from tests.builders import Json
from tests.command import printed

from .cluster_answers import rapi_answers, write_answers

NODES = [raw["name"] for raw in rapi_answers()["nodes"]]


def report(load: Any) -> Json:
    """Return the report of a node's monitoring daemon with the load `load`."""
    return {"name": "cpu-avg-load", "version": "B", "format_version": 1, "timestamp": 1,
            "category": None, "kind": 0, "data": {"cpu_number": 8, "cpu_total": load}}  # fmt: skip


def stored(folder: Path, loads: Json, name: str = "cpu-avg-load") -> str:
    """Return an option that names a new file with reports of daemons."""
    reports: list[Json] = [
        {"node": node, "reports": [report(load) | {"name": name}]} for node, load in loads.items()
    ]
    if name.startswith("xen"):
        for entry, load in zip(reports, loads.values(), strict=True):
            entry["reports"][0]["data"] = load
    (folder / "mond.json").write_text(json.dumps(reports))
    return f"--mond-data={folder}/mond.json"


def cpu_loads(folder: Path, capsys: Capture, *words: str) -> tuple[dict[str, float], str]:
    """Return the cpu load of nodes and instances in lists, and other lines of stderr."""
    address = write_answers(folder / "rapi", rapi_answers())
    status = main(["balance", "-l0", "-pname,cload", "--print-instances", "-m", address, *words])
    assert status == 0
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    pairs = {line[0]: line[1] for line in lines if len(line) == 2}
    nodes = {name: float(pairs[name.removesuffix(".example.com")]) for name in NODES}
    shown = {f"{line[1]}.example.com": float(line[-4]) for line in lines if line and line[0] == "R"}
    return nodes | shown, "\n".join(" ".join(line) for line in lines if "Warning:" in line)


def test_load_of_a_node_is_divided_among_its_cpus(tmp_path: Path, capsys: Capture) -> None:
    """The load of a node is divided equally among its own cpus and those of its instances."""
    loads = dict(zip(NODES, (5.0, 1.0, 2.0, 4.0, 0.5), strict=True))
    found, warnings = cpu_loads(tmp_path, capsys, stored(tmp_path, loads))
    assert warnings == ""
    assert {node: found[node] for node in NODES} == loads
    assert [found[f"inst{n}.example.com"] for n in (1, 2, 3, 4, 5, 6)] == [1, 1, 1, 1, 1, 2]


def test_load_of_instances_on_xen_is_their_own(tmp_path: Path, capsys: Capture) -> None:
    """On Xen, each instance has the load that its node reports; the node has the sum."""
    loads: Json = {node: {} for node in NODES} | {
        NODES[0]: {f"inst{n}.example.com": n / 10 for n in (1, 2, 3, 4)},
        NODES[2]: {"inst5.example.com": 3.0},
        NODES[3]: {"inst6.example.com": 0.0},
    }
    reported = stored(tmp_path, loads, "xen-cpu-avg-load")
    found, _ = cpu_loads(tmp_path, capsys, reported, "--mond-xen")
    assert found["inst5.example.com"] == found[NODES[2]] == 3.0
    assert found[NODES[0]] == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda loads: loads.pop(NODES[1]), ()),
        (lambda loads: loads.update({NODES[1]: "much"}), ()),
        (lambda loads: loads.update({NODES[1]: -1}), ()),
        (lambda loads: None, ("--mond-xen",)),
    ],
)
def test_load_is_ignored_if_one_node_does_not_report_it(
    change: Callable[[Json], object], words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """If one node reports no load, no loads are used, with a warning or status 1."""
    loads = dict.fromkeys(NODES, 3.0)
    change(loads)
    reported = stored(tmp_path, loads)
    found, warnings = cpu_loads(tmp_path, capsys, reported, *words)
    assert {found[f"inst{n}.example.com"] for n in (1, 5, 6)} == {1.0}
    assert "no measured load counts" in warnings
    address = write_answers(tmp_path / "rapi", rapi_answers())
    strict = ["check", "-m", address, reported, "--exit-on-missing-mond-data", *words]
    assert main(strict) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert NODES[0] in err or NODES[1] in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", ()), ("{}", ()), ("[1]", ()), ('[{"node": "a"}]', ()),
        ("[]", ("--ignore-dynu",)), ("[]", ("--mond=no", "--mond-data=")),
    ],
)  # fmt: skip
def test_measured_loads_that_cannot_be_read_are_one_line(
    text: str, words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """Loads that cannot be read are reported in one line, with exit status 2."""
    (tmp_path / "mond.json").write_text(text)
    address = write_answers(tmp_path / "rapi", rapi_answers())
    reported = f"--mond-data={tmp_path}/mond.json"
    assert main(["balance", "-m", address, reported, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_mond_options_without_mond_are_rejected(tmp_path: Path, capsys: Capture) -> None:
    """Options for monitoring daemons are rejected without --mond."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    for option in ("--mond-xen", "--exit-on-missing-mond-data"):
        assert main(["balance", "-m", address, option]) == 2
        assert "--mond" in capsys.readouterr().err


def test_each_daemon_is_queried_over_http_at_its_node(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each monitoring daemon is queried over HTTP; if one fails, no loads are used."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/1/report/default/cpu-avg-load"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(report(2.0)).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(measured, "MONITORING_PORT", server.server_port)
    answers = rapi_answers()
    answers["nodes"] = answers["nodes"][:1]
    answers["nodes"][0]["name"] = answers["info"]["master"] = "127.0.0.1"
    answers["instances"] = []
    words = ["balance", "-pname,cload", "-m", write_answers(tmp_path / "rapi", answers), "--mond"]
    assert main(words) == 0
    assert capsys.readouterr().err.split()[-2:] == ["127", "2.000"]
    server.shutdown()
    server.server_close()
    assert main(words) == 0
    assert "node 127.0.0.1: Connection refused" in capsys.readouterr().err


def test_load_of_placement_keys_is_that_of_the_daemons(tmp_path: Path) -> None:
    """The strategy for placement keys uses the load that the daemons report."""
    from tests.builders import allocate, cluster

    document = allocate(cluster(2), disk_template="plain", memory=512)
    keys = [{"class": "special", "name": "#LOAD", "value": 0, "weight": 100}]
    document["request"]["placement_keys"] = keys
    (tmp_path / "request.json").write_text(json.dumps(document))
    chosen = set()
    for busy in ("node1", "node2"):
        loads = {node: 3.9 if node == busy else 0.0 for node in ("node1", "node2")}
        reported = stored(tmp_path, loads)
        chosen.add(
            (
                busy,
                json.loads(
                    printed(str(tmp_path / "request.json"), "--strategy=affinity", reported)
                )["result"][0],
            )
        )
    assert chosen == {("node1", "node2"), ("node2", "node1")}


def test_history_of_loads_comes_from_daemons_beside_rapi(tmp_path: Path, capsys: Capture) -> None:
    """With RAPI, `balance --steady` stores the loads of monitoring daemons, and names the options.

    RAPI itself reports no loads.
    """
    address = write_answers(tmp_path / "rapi", rapi_answers())
    words = ["balance", "--steady", f"--history={tmp_path}/loads", "--all-groups", "-m", address]
    assert main(words) == 2
    message = capsys.readouterr().err
    assert "LUXI, RAPI and files of clusters do not have: --mond=yes" in message
    loads = dict(zip(NODES, (5.0, 1.0, 2.0, 4.0, 0.5), strict=True))
    assert main([*words, stored(tmp_path, loads), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steady"]["sample_count"] == 1
    (day,) = (tmp_path / "loads").glob("*.jsonl")
    instances = json.loads(day.read_text())["instances"]
    assert sum(one["load"][0] for one in instances.values() if "load" in one) > 5
