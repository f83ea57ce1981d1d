#!/usr/bin/python3
"""Run an allocator in a real Ganeti cluster on this machine, and see whether it keeps its word.

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

from scenario import creation, execution, extras, groups, moves, outages, reading
from scenario.runner import Runner, Tally
from vcluster import host, stage
from vcluster.cluster import Cluster
from vcluster.layout import default_nodes
from vcluster.node import ClusterError
from vcluster.patches import PatchError

_CANNOT_RUN = 2


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
        "--only-executions", action="store_true", help="only carry plans out, with faults"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster up until interrupted"
    )
    return parser.parse_args()


def _captures(wanted: Path | None) -> Path:
    if wanted is None:
        directory = Path(tempfile.mkdtemp(prefix="iallocator-e2e-"))
        directory.chmod(0o755)
        return directory
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted.resolve()


def _scenario(run: Runner, options: str) -> None:
    _each(
        run,
        lambda: extras.set_parameters(run, options),
        lambda: creation.single(run),
        lambda: creation.batches(run),
        lambda: moves.single(run),
        lambda: moves.whole_nodes(run),
        lambda: groups.change(run),
        lambda: outages.nodes(run),
        lambda: outages.group_policies(run),
        lambda: extras.parameters(run, options),
        lambda: extras.questions(run),
        lambda: extras.last_look(run),
    )


def _each(run: Runner, *sections: Callable[[], None]) -> None:
    """Run the sections; where one cannot go on, the next is tried."""
    for section in sections:
        try:
            section()
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
        run = Runner(cluster, captures, logs, hail=arguments.plugin.name == "hail")
        try:
            if not arguments.only_executions:
                _scenario(run, arguments.options)
            if arguments.plugin.name != "hail":  # which carries nothing out
                _each(run, lambda: reading.doors(run), lambda: execution.faults(run))
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
    """Run everything.

    Returns
    -------
    int
        0 if all went as expected, 1 if not, 2 if it could not be tried.
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
