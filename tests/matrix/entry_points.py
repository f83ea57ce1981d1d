"""Answer requests in other ways: in words, from a snapshot, or with options in a file.

Another way is the explanation of a captured call.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.builders import Json, as_bytes
from tests.command import run
from tests.live.cluster_answers import write_answers

from .running import answers_of
from .scenarios import Scenario

__all__ = ["ask", "captured", "configured", "snapshot"]


def ask(scenario: Scenario) -> Json:
    """Return the answer of `ask` to the request in words, for the cluster without the request."""
    cluster = {key: value for key, value in scenario.finished().items() if key != "request"}
    done = run(
        "ask", *_words(scenario.request), "--json", *scenario.options, stdin=as_bytes(cluster)
    )
    return _response(done.stdout, done.stderr)


def snapshot(scenario: Scenario) -> Json:
    """Return the answer to a request on the document that `snapshot` writes of a cluster."""
    question = " ".join(_words(scenario.request))
    with tempfile.TemporaryDirectory() as folder:
        address = write_answers(Path(folder) / "rapi", answers_of(scenario.finished()))
        taken = run("snapshot", "-m", address, "--form=json", "--request", question)
    assert taken.returncode == 0, taken.stderr.decode()
    scenario.document["request"] = json.loads(taken.stdout)["request"]
    return _plain(run("-", *scenario.options, stdin=taken.stdout).stdout)


def captured(scenario: Scenario) -> Json:
    """Return the explanation of a captured call, made from the stored call alone."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "calls").mkdir()
        noted = (f"--capture={folder}/calls", f"--log={folder}/log")
        done = run("-", *noted, *scenario.options, stdin=as_bytes(scenario.finished()))
        output = "success" if json.loads(done.stdout)["success"] else "failure"
        assert f" {output}" in Path(f"{folder}/log").read_text()
        again = run("explain", "--json", f"{folder}/calls#1")
    response = _response(again.stdout, again.stderr)
    assert response["result"] == json.loads(done.stdout)["result"]
    return response


def configured(scenario: Scenario) -> Json:
    """Return the answer to the request with the options in a configuration file."""
    with tempfile.TemporaryDirectory() as folder:
        output = dict(option.removeprefix("--").split("=") for option in scenario.options)
        file = Path(folder) / "conf"
        file.write_text(
            "".join(f"{name} = {json.dumps(value)}\n" for name, value in output.items())
        )
        done = run("-", f"--config={file}", stdin=as_bytes(scenario.finished()))
    assert done.returncode == 0, done.stderr.decode()
    return _plain(done.stdout)


def _words(request: Json) -> list[str]:
    """Return a request for a new instance as arguments of `ask`."""
    words = ["allocate", f"--name={request['name']}", f"--memory={request['memory']}M"]
    words += [f"--vcpus={request['vcpus']}", f"--template={request['disk_template']}"]
    words += [f"--disk={disk['size']}M" for disk in request["disks"]]
    words += [f"--spindle-use={request['spindle_use']}"]
    words += [f"--network={nic['network']}" for nic in request["nics"] if nic.get("network")]
    if request.get("restrict-to-nodes"):
        words.append(f"--restrict-allocation-to={','.join(request['restrict-to-nodes'])}")
    if request["tags"]:
        words.append(f"--instance-tags={','.join(request['tags'])}")
    return words


def _response(raw: bytes, complained: bytes) -> Json:
    assert raw, complained.decode()
    return json.loads(raw)["response"]  # type: ignore[no-any-return]


def _plain(raw: bytes) -> Json:
    return json.loads(raw)  # type: ignore[no-any-return]
