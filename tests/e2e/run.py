#!/usr/bin/python3
"""Run an allocator in a real Ganeti cluster on this machine; check that Ganeti obeys its answers.

See README.md beside this file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scenario import (
    creation,
    execution,
    extras,
    groups,
    maintaining,
    manual,
    moves,
    outages,
    reading,
    rescuing,
    returning,
    steadying,
    trace,
    upkeep,
    volumes,
)
from scenario.runner import Runner, Tally
from vcluster import host, stage
from vcluster.cluster import Cluster
from vcluster.layout import default_nodes
from vcluster.node import ClusterError
from vcluster.patches import PatchError

_CANNOT_RUN = 2

_SECTIONS: dict[str, Callable[[Runner, str], None]] = {
    "creation": lambda run, _: _each(run, creation.single, creation.batches),
    "moves": lambda run, _: _each(run, moves.single, moves.whole_nodes),
    "groups": lambda run, _: groups.change(run),
    "outages": lambda run, _: _each(run, outages.nodes, outages.group_policies),
    "parameters": extras.parameters,
    "questions": lambda run, _: extras.questions(run),
    "last": lambda run, _: extras.last_look(run),
    "trace": trace.calls,
    "reading": lambda run, _: reading.connections(run),
    "rescuing": lambda run, _: rescuing.rescuing(run),
    "maintaining": lambda run, _: maintaining.maintaining(run),
    "steadying": lambda run, _: steadying.steadying(run),
    "execution": lambda run, _: execution.faults(run),
    "upkeep": lambda run, _: upkeep.upkeep(run),
    "returning": lambda run, _: returning.returning(run),
    "volumes": lambda run, _: volumes.volumes(run),
    "manual": lambda run, _: manual.manual(run),
}
"""Name -> function of a section; its parameter is the options of the allocator.

Some sections need what earlier ones create. `rescuing` checks the keys of all nodes, so it comes
before `execution`, which marks nodes as offline without renewing their keys.
"""

_BEYOND_HAIL = (
    "trace",
    "reading",
    "execution",
    "upkeep",
    "returning",
    "rescuing",
    "volumes",
    "maintaining",
    "steadying",
    "manual",
)
"""Sections that use features which hail does not have."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", type=Path, required=True, help="the allocator's executable")
    parser.add_argument(
        "--captures",
        type=Path,
        help="directory for what was asked and answered (default: a new one in /tmp)",
    )
    parser.add_argument(
        "--options", default="", metavar="NAME=VALUE,...", help="parameters for the allocator"
    )
    parser.add_argument(
        "--only", default="", metavar="SECTION,...", help=f"only these: {', '.join(_SECTIONS)}"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster up until interrupted"
    )
    arguments = parser.parse_args()
    unknown = set(filter(None, arguments.only.split(","))) - set(_SECTIONS)
    if unknown:
        parser.error(f"--only: no section {', '.join(sorted(unknown))}")
    return arguments


def _captures(wanted: Path | None) -> Path:
    if wanted is None:
        directory = Path(tempfile.mkdtemp(prefix="iallocator-e2e-"))
        directory.chmod(0o755)
        return directory
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted.resolve()


def _scenario(run: Runner, options: str, only: str, hail: bool) -> None:
    extras.set_parameters(run, options)
    names = only.split(",") if only else [n for n in _SECTIONS if not hail or n not in _BEYOND_HAIL]
    for name in names:
        _each(run, lambda run, name=name: _SECTIONS[name](run, options))


def _each(run: Runner, *sections: Callable[[Runner], None]) -> None:
    """Run the sections; if one cannot continue, run the next one."""
    for section in sections:
        try:
            section(run)
        except ClusterError as error:
            # The rest of the section builds on what failed; the next may still show something.
            run.record("go on in this section", str(error).splitlines())


def _keep(cluster: Cluster) -> None:
    print("the cluster stays up; enter its master with")
    print(f"    {' '.join(cluster.master.command('bash'))}")
    print("end it with Ctrl-C", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


def _run(arguments: argparse.Namespace, captures: Path) -> Tally:
    logs = captures / "logs"
    logs.mkdir(exist_ok=True)
    started = time.monotonic()
    allocator = stage.prepare(default_nodes(), arguments.plugin, captures)
    with Cluster(default_nodes(), allocator, logs) as cluster:
        print(
            f"cluster of {len(cluster.nodes)} nodes up after {time.monotonic() - started:.0f} s",
            flush=True,
        )
        hail = arguments.plugin.name == "hail"
        run = Runner(cluster, captures, logs, hail=hail)
        try:
            _scenario(run, arguments.options, arguments.only, hail)
        finally:
            _save_logs(cluster, logs)
        print(f"took {time.monotonic() - started:.0f} s; calls and logs are in {captures}")
        if arguments.keep:
            _keep(cluster)
    return run.tally


def _save_logs(cluster: Cluster, logs: Path) -> None:
    for name, node in cluster.nodes.items():
        source = node.path("/var/log/ganeti")
        shutil.copytree(
            source,
            logs / name,
            ignore=shutil.ignore_patterns("os", "kvm", "xen"),
            dirs_exist_ok=True,
        )


def main() -> int:
    """Run all sections of the test.

    Returns
    -------
    int
        0 if all steps went as expected, 1 if not, 2 if the scenario could not run.
    """
    arguments = _arguments()
    arguments.plugin = Path(os.path.abspath(arguments.plugin))  # links kept: a name may matter
    if not os.access(arguments.plugin, os.X_OK):
        print(f"e2e: cannot run: {arguments.plugin} is not an executable file", file=sys.stderr)
        return _CANNOT_RUN
    # A shell starts background jobs with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        host.check()
        host.enter_namespaces()
        tally = _run(arguments, _captures(arguments.captures))
    except (host.CannotRunError, ClusterError, PatchError) as error:
        print(f"e2e: cannot run: {error}", file=sys.stderr)
        return _CANNOT_RUN
    except KeyboardInterrupt:
        print("e2e: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    known = f", {tally.known} known faults of hail" if tally.known else ""
    print(f"{tally.passed} passed, {tally.failed} failed{known}")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
