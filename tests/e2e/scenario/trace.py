"""Test the log and the captured calls of the allocator in a real Ganeti cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vcluster.layout import NODE_STATE, instance

from scenario.creation import ALLOCATE, add
from scenario.expectations import Expect
from scenario.extras import set_parameters
from scenario.reading import program
from scenario.runner import Runner

Json = dict[str, Any]

_FILE = "/etc/iallocator.conf"


def calls(run: Runner, options: str) -> None:
    """Log and capture calls, by the cluster's parameters and by the configuration file.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    options : str
        The cluster's parameters before, and afterwards.
    """
    run.section("what was asked is kept")
    log, folder = f"{NODE_STATE}/calls.log", f"{NODE_STATE}/calls"
    run.cluster.master.run("install", "-d", "-m", "700", folder)
    reported = f"log={log},capture={folder}"
    set_parameters(run, ",".join(filter(None, [options, reported])))
    run.step("create while calls are kept", *add("tr1", "sharedfile"), expect=ALLOCATE)
    _traced_by_parameters(run, log, folder)
    set_parameters(run, options)
    conf = run.cluster.master.path(_FILE)
    conf.write_text(f'log = "{log}"\ncapture = "{folder}"\ncapture-keep = 2\n', encoding="utf-8")
    run.step("create with a configuration file", *add("tr2", "sharedfile"), expect=ALLOCATE)
    move = ("gnt-instance", "migrate", "--force", instance("tr1"))
    run.step("migrate with a configuration file", *move, expect=Expect(calls=("relocate",)))
    run.record("the newest calls are kept", list(_newest(run, log, folder)))
    conf.unlink()
    set_parameters(run, ",".join(filter(None, [options, "capture=/nowhere"])))
    run.step("create where no call can be kept", *add("tr3", "sharedfile"), expect=ALLOCATE)
    warned = "/nowhere" in str(run.calls[-1].text)
    run.record("the answer says that it is not kept", [] if warned else [run.calls[-1].text])
    set_parameters(run, options)
    run.drop("tr1", "tr2", "tr3")


def _history(run: Runner, folder: str) -> list[Json]:
    done = run.cluster.master.run(program(), "history", folder, "--json", "--no-config")
    found: list[Json] = json.loads(done.output)["calls"]
    return found


def _traced_by_parameters(run: Runner, log: str, folder: str) -> None:
    """Check that a request has one log line and one captured call, which can be explained."""
    lines = run.cluster.master.path(log).read_text(encoding="utf-8").splitlines()
    wrong = [] if len(lines) == 1 and instance("tr1") in lines[0] else [f"the log: {lines}"]
    found = _history(run, folder)
    if len(found) != 1 or found[0]["request_type"] != "allocate":
        wrong.append(f"the history: {found}")
    modes = run.cluster.ask("sh", "-c", f"stat -c %a {folder}/*").split()
    wrong += [f"modes {modes}"] if set(modes) != {"600"} else []
    run.record("the call is in the log and in the folder, for its owner only", wrong)
    for command in ("explain", "replay"):
        done = run.cluster.master.run(program(), command, f"{folder}#1")
        run.record(f"{command} takes it", [] if done.status == 0 else done.output.splitlines())


def _newest(run: Runner, log: str, folder: str) -> Iterator[str]:
    """Check that two calls of three requests are kept, and that the log has all three."""
    found = _history(run, folder)
    types = [call["request_type"] for call in found]
    if types != ["allocate", "relocate"]:
        yield f"the history: {found}"
    lines = run.cluster.master.path(log).read_text(encoding="utf-8").splitlines()
    if len(lines) != 3:
        yield f"the log: {lines}"
