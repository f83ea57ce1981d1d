"""Start one node with its own namespaces, and run commands inside it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vcluster.layout import NodeSpec

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
}
_PACKAGE_PARENT = Path(__file__).resolve().parent.parent
_NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc")
_START_TIMEOUT = 60
_STOP_TIMEOUT = 15
_COMMAND_TIMEOUT = 600


class ClusterError(Exception):
    """Raised if the cluster, or a command that prepares it, fails."""


@dataclass(frozen=True)
class Done:
    """The result of a command that has ended.

    Attributes
    ----------
    status : int
        Exit status of the command.
    output : str
        Output of the command on stdout and stderr.
    """

    status: int
    output: str


class Node:
    """A running node.

    Parameters
    ----------
    spec : NodeSpec
        The description of the node.
    log : IO
        Where its first process writes errors.
    """

    def __init__(self, spec: NodeSpec, log: IO[str]) -> None:
        self.spec = spec
        command = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--propagation", "private"]
        command += [
            sys.executable,
            "-B",
            "-m",
            "vcluster.nodeinit",
            json.dumps(dataclasses.asdict(spec)),
        ]
        # A session of its own, because Ctrl-C must reach this process, which then stops the nodes
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**ENVIRONMENT, "PYTHONPATH": str(_PACKAGE_PARENT)},
            start_new_session=True,
        )

    def wait_until_ready(self) -> None:
        """Wait until the node accepts commands.

        Raises
        ------
        ClusterError
            If the node ends before that.
        """
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise ClusterError(f"{self.spec.name} did not start; see the log of the nodes")

    def command(self, *words: str) -> list[str]:
        """Return a command line that runs a command inside the node.

        Parameters
        ----------
        *words : str
            The command.

        Returns
        -------
        list of str
            The command line, with the prefix that enters the node.
        """
        pid = self._process.pid
        # --root matters where all this runs in a chroot.
        enter = ["nsenter", "-t", str(pid), "--mount", "--root", "--net", "--uts", "--ipc"]
        return [*enter, f"--pid=/proc/{pid}/ns/pid_for_children", "--", *words]

    def run(self, *words: str, stdin: str | None = None) -> Done:
        """Run a command inside the node.

        Parameters
        ----------
        *words : str
            The command.
        stdin : str, optional
            Standard input of the command.

        Returns
        -------
        Done
            Exit status and output of the command.
        """
        try:
            done = subprocess.run(
                self.command(*words),
                input=stdin or "",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=ENVIRONMENT,
                cwd="/",
                timeout=_COMMAND_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            return Done(124, f"{late.stdout!r}\nno end after {_COMMAND_TIMEOUT} s")
        return Done(done.returncode, done.stdout)

    def path(self, inside: str) -> Path:
        """Return the path in this namespace of a file of the node.

        Parameters
        ----------
        inside : str
            Absolute path, without links on the way.

        Returns
        -------
        pathlib.Path
            The same file.
        """
        return Path(f"/proc/{self._process.pid}/root{inside}")

    @property
    def pid(self) -> int:
        """Return the ID of a process in the node's namespaces."""
        return self._process.pid

    def stop(self) -> None:
        """Stop the node."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait_until_gone(self) -> None:
        """Wait until no process of the node is running."""
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()  # --kill-child ends process 1 too
            self._process.wait()
