"""Start the nodes, make a Ganeti cluster of them, and run commands in it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from vcluster import state
from vcluster.layout import (
    BRIDGE,
    CLUSTER_NAME,
    FIRST_GROUP,
    TEMPLATES,
    VOLUME_GROUP,
    NodeSpec,
)

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
    """The cluster could not be made."""


@dataclass(frozen=True)
class Done:
    """A command that has ended.

    Attributes
    ----------
    status : int
        Its exit status.
    output : str
        What it printed on stdout and stderr.
    """

    status: int
    output: str


class Node:
    """A running node.

    Parameters
    ----------
    spec : NodeSpec
        What it is.
    log : IO
        Where its first process writes errors.
    """

    def __init__(self, spec: NodeSpec, log: IO[str]) -> None:
        self.spec = spec
        command = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--propagation", "private"]
        command += [sys.executable, "-B", "-m", "vcluster.nodeinit", json.dumps(dataclasses.asdict(spec))]
        # A session of its own: Ctrl-C shall reach us, and we shall end the nodes.
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
            When it ended instead.
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
            The command with what must precede it.
        """
        pid = self._process.pid
        enter = ["nsenter", "-t", str(pid), "--mount", "--net", "--uts", "--ipc"]
        return [*enter, f"--pid=/proc/{pid}/ns/pid_for_children", "--", *words]

    def run(self, *words: str, stdin: str | None = None) -> Done:
        """Run a command inside the node.

        Parameters
        ----------
        *words : str
            The command.
        stdin : str, optional
            Its standard input.

        Returns
        -------
        Done
            How it ended.
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
        """Return where a path of the node's can be reached from here.

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
        """Process whose namespaces are the node's."""
        return self._process.pid

    def stop(self) -> None:
        """Tell the node to end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait_until_gone(self) -> None:
        """Wait until nothing of the node runs any more."""
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()  # --kill-child ends process 1 too
            self._process.wait()


class Cluster:
    """A cluster that lives as long as the context manager.

    The calling process's network namespace becomes the switch that connects the nodes.

    Parameters
    ----------
    specs : tuple of NodeSpec
        The nodes, master first.
    allocator : str
        Name of the default allocator.
    logs : pathlib.Path
        Directory for what the nodes themselves print.
    """

    def __init__(self, specs: tuple[NodeSpec, ...], allocator: str, logs: Path) -> None:
        self.specs = specs
        self.nodes: dict[str, Node] = {}
        self.allocator = allocator
        self._logs = logs

    def __enter__(self) -> Cluster:
        try:
            self._start_nodes()
            self._make_cluster()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def master(self) -> Node:
        """The node that commands run on."""
        return self.nodes[self.specs[0].name]

    def gnt(self, *words: str) -> Done:
        """Run a command on the master.

        Parameters
        ----------
        *words : str
            The command.

        Returns
        -------
        Done
            How it ended.
        """
        return self.master.run(*words)

    def ask(self, *words: str) -> str:
        """Run a command on the master that cannot fail.

        Parameters
        ----------
        *words : str
            The command.

        Returns
        -------
        str
            What it printed.

        Raises
        ------
        ClusterError
            When it failed all the same.
        """
        return self._must(*words).output

    def instances(self) -> dict[str, state.Instance]:
        """Return all instances by name."""
        return state.instances(self.ask)

    def stop(self) -> None:
        """End all nodes."""
        for node in self.nodes.values():
            node.stop()
        for node in self.nodes.values():
            node.wait_until_gone()

    def _start_nodes(self) -> None:
        _ip("link set lo up", "link add br0 type bridge", "link set br0 up")
        with open(self._logs / "nodes.log", "w", encoding="utf-8") as log:
            for spec in self.specs:
                self.nodes[spec.name] = Node(spec, log)
        for node in self.nodes.values():
            node.wait_until_ready()
            self._connect(node)

    @staticmethod
    def _connect(node: Node) -> None:
        port = f"port{node.spec.number}"
        _ip(f"link add {port} type veth peer name eth0 netns {node.pid}", f"link set {port} master br0 up")
        _ip(
            "link set lo up",
            f"addr add {node.spec.address}/24 dev eth0",
            "link set eth0 up",
            f"link add {BRIDGE} type bridge",
            f"link set {BRIDGE} up",
            inside=["nsenter", "-t", str(node.pid), "--net"],
        )

    def _make_cluster(self) -> None:
        self._must(
            "gnt-cluster", "init", "--no-etc-hosts", "--master-netdev=eth0",
            "--enabled-hypervisors=fake", f"--enabled-disk-templates={','.join(TEMPLATES)}",
            f"--vg-name={VOLUME_GROUP}", "--drbd-usermode-helper=/bin/true",
            f"--nic-parameters=mode=bridged,link={BRIDGE}",
            f"--default-iallocator={self.allocator}",
            # Ganeti copies its configuration to every candidate at every change.
            "--candidate-pool-size=3",
            "--ipolicy-bounds-specs=" + _wide_policy(),
            CLUSTER_NAME,
        )  # fmt: skip
        # From here on Ganeti spreads its keys itself; the first one an administrator brings.
        key = self._must("sh", "-c", "cat /root/.ssh/id_*.pub").output
        for spec in self.specs[1:]:
            words = ("sh", "-c", "umask 077; cat > /root/.ssh/authorized_keys")
            self.nodes[spec.name].run(*words, stdin=key)
            self._must("gnt-node", "add", "--no-ssh-key-check", spec.name)
        for group in sorted({s.group for s in self.specs} - {FIRST_GROUP}):
            members = [s.name for s in self.specs if s.group == group]
            self._must("gnt-group", "add", group)
            self._must("gnt-group", "assign-nodes", group, *members)

    def _must(self, *words: str) -> Done:
        done = self.gnt(*words)
        if done.status != 0:
            raise ClusterError(f"{' '.join(words)} failed:\n{done.output[-2000:]}")
        return done


def _wide_policy() -> str:
    """Return bounds that forbid nothing the scenario wants."""
    least = "disk-size=0,cpu-count=1,disk-count=0,memory-size=1,nic-count=0,spindle-use=0"
    most = "disk-size=1048576,cpu-count=16,disk-count=16,memory-size=65536,nic-count=8,spindle-use=12"
    return f"min:{least}/max:{most}"


def _ip(*lines: str, inside: list[str] | None = None) -> None:
    command = [*(inside or []), "ip", "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"ip: {done.stderr.strip()}")
