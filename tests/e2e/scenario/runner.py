"""Run steps on the cluster one after the other, and count the results."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from vcluster import calls, stage, state
from vcluster.cluster import Cluster
from vcluster.layout import instance
from vcluster.node import ClusterError

from scenario.expectations import Expect, Outcome, problems

_ATTEMPTS = 4
_TIMED_OUT = "SSL connection timeout"
"""Part of the message of a command that failed because a node did not answer Ganeti in time."""


@dataclass
class Tally:
    """The number of steps with each result."""

    passed: int = 0
    failed: int = 0
    known: int = 0


class Runner:
    """Runs steps on a cluster and prints one line for each.

    Parameters
    ----------
    cluster : Cluster
        The running cluster.
    captures, logs : pathlib.Path
        Directories for the calls of the allocator, and for the output of steps.
    hail : bool
        The allocator is Ganeti's hail: steps that hail is known to fail do not count as failed.
    """

    def __init__(self, cluster: Cluster, captures: Path, logs: Path, *, hail: bool = False) -> None:
        self.cluster = cluster
        self.tally = Tally()
        self._captures = captures
        self._logs = logs
        self._hail = hail
        self._number = 0
        self._groups = state.node_groups(cluster.ask)
        # The directory may hold those of earlier runs.
        self._first_call = self._seen_calls = len(calls.read(captures))
        self._seen_jobs = set(state.failed_jobs(cluster.ask))
        self._instances = cluster.instances()
        self._stale = False

    def section(self, title: str) -> None:
        """Print a heading.

        Parameters
        ----------
        title : str
            The heading.
        """
        print(f"-- {title}", flush=True)

    def step(self, label: str, *words: str, expect: Expect, hail: str = "") -> Outcome:
        """Run a command on the master and check its effect.

        Parameters
        ----------
        label : str
            A description of the step.
        *words : str
            The command.
        expect : Expect
            The expected outcome.
        hail : str, optional
            Why Ganeti's hail is known to fail the step, if so.

        Returns
        -------
        Outcome
            The outcome of the step.
        """
        before = self.instances
        self._number += 1
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
        stage.STEP.write_text(slug, encoding="utf-8")
        started = time.monotonic()
        done = self.cluster.gnt(*words)
        outcome = self._look(done.status, done.output, before)
        found = problems(expect, outcome)
        seconds = time.monotonic() - started
        log = self._logs / f"{self._number:02d}-{slug}.log"
        log.write_text(
            "\n".join([f"$ {' '.join(words)}", done.output, *found, ""]), encoding="utf-8"
        )
        self._print(label, seconds, found, hail)
        return outcome

    def arrange(self, *words: str) -> None:
        """Run a command that only prepares for what follows; it must succeed.

        If Ganeti cannot reach a node in time, as on a busy machine, the command is repeated.

        Parameters
        ----------
        *words : str
            The command.
        """
        stage.STEP.write_text("arrange", encoding="utf-8")
        for attempt in range(_ATTEMPTS):
            try:
                self.cluster.ask(*words)
                break
            except ClusterError as error:
                if _TIMED_OUT not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
        self._stale = True

    def drop(self, *names: str) -> None:
        """Remove those of the named instances that exist.

        Parameters
        ----------
        *names : str
            Short names.
        """
        present = [name for name in map(instance, names) if name in self.instances]
        remove = ("gnt-instance", "remove", "--force", "--shutdown-timeout=0")
        # Most of the time such a command waits; a few at once take little longer than one.
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: self.arrange(*remove, name), present))

    def clear(self) -> None:
        """Set all nodes online and undrained, and remove all instances of earlier sections."""
        for node in sorted(self._groups):
            self.cluster.gnt("gnt-node", "modify", "--force", "--offline=no", node)
            self.cluster.gnt("gnt-node", "modify", "--force", "--drained=no", node)
        self.drop(*(name.partition(".")[0] for name in self.instances))

    def primary(self, name: str) -> str:
        """Return the primary node of an instance.

        Parameters
        ----------
        name : str
            Short name of the instance.
        """
        return self._nodes(name)[0]

    def secondary(self, name: str) -> str:
        """Return the secondary node of an instance.

        Parameters
        ----------
        name : str
            Short name of the instance.
        """
        return self._nodes(name)[1]

    def group_of(self, name: str) -> str:
        """Return the group of an instance.

        Parameters
        ----------
        name : str
            Short name of the instance.
        """
        return self._groups[self.primary(name)]

    def nodes_of(self, group: str) -> list[str]:
        """Return the nodes of a group.

        Parameters
        ----------
        group : str
            Name of the group.
        """
        return sorted(node for node, its in self._groups.items() if its == group)

    @property
    def calls(self) -> list[calls.Call]:
        """Return all runs of the allocator so far."""
        return calls.read(self._captures)[self._first_call :]

    @property
    def instances(self) -> dict[str, state.Instance]:
        """Return the present instances of the cluster."""
        if self._stale:
            self._look(0, "", {})
        return self._instances

    def record(self, label: str, found: list[str], *, hail: str = "") -> None:
        """Count and print the result of a check that is not a command.

        Parameters
        ----------
        label : str
            A description of the check.
        found : list of str
            The problems.
        hail : str, optional
            Why Ganeti's hail is known to fail the check, if so.
        """
        self._number += 1
        self._print(label, 0.0, found, hail)

    def _nodes(self, name: str) -> tuple[str, ...]:
        found = self.instances.get(instance(name))
        if found is None:
            raise ClusterError(f"{name}, which an earlier step should have made, does not exist")
        return found.nodes

    def _look(self, status: int, output: str, before: dict[str, state.Instance]) -> Outcome:
        all_calls = calls.read(self._captures)
        jobs = state.failed_jobs(self.cluster.ask)
        self._instances = self.cluster.instances()
        outcome = Outcome(
            status=status,
            output=output,
            calls=all_calls[self._seen_calls :],
            before=before,
            after=self._instances,
            groups=self._groups,
            failed_jobs={n: text for n, text in jobs.items() if n not in self._seen_jobs},
        )
        self._seen_calls = len(all_calls)
        self._seen_jobs |= set(jobs)
        self._stale = False
        return outcome

    def _print(self, label: str, seconds: float, found: list[str], hail: str) -> None:
        if not found:
            result = "ok"
            self.tally.passed += 1
        elif hail and self._hail:
            result = "known"
            self.tally.known += 1
            found = [f"hail: {hail}", *found]
        else:
            result = "FAILED"
            self.tally.failed += 1
        print(f"{result:<6} {self._number:>3} {seconds:6.1f} s  {label}", flush=True)
        for line in found:
            print(f"              {line}", flush=True)
