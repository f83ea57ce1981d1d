"""Start the nodes, create a Ganeti cluster with them, and run commands in it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from vcluster import state
from vcluster.layout import (
    BRIDGE,
    CLUSTER_NAME,
    FIRST_GROUP,
    TEMPLATES,
    VOLUME_GROUP,
    NodeSpec,
)
from vcluster.node import ClusterError, Done, Node


class Cluster:
    """A cluster that exists while the context manager is active.

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
        """Start the cluster."""
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
        """Stop the cluster."""
        self.stop()

    @property
    def master(self) -> Node:
        """Return the node that runs the commands."""
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
            Exit status and output of the command.
        """
        return self.master.run(*words)

    def ask(self, *words: str) -> str:
        """Run a command on the master; raise an error if the command fails.

        Parameters
        ----------
        *words : str
            The command.

        Returns
        -------
        str
            The output of the command.

        Raises
        ------
        ClusterError
            If the command fails.
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
        with (self._logs / "nodes.log").open("w", encoding="utf-8") as log:
            for spec in self.specs:
                self.nodes[spec.name] = Node(spec, log)
        for node in self.nodes.values():
            node.wait_until_ready()
            self._connect(node)

    @staticmethod
    def _connect(node: Node) -> None:
        port = f"port{node.spec.number}"
        _ip(
            f"link add {port} type veth peer name eth0 netns {node.pid}",
            f"link set {port} master br0 up",
        )
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
        # An administrator copies the first key to each node; Ganeti distributes the others.
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
    """Return an instance policy that allows every instance of the scenarios."""
    least = "disk-size=0,cpu-count=1,disk-count=0,memory-size=1,nic-count=0,spindle-use=0"
    most = (
        "disk-size=1048576,cpu-count=16,disk-count=16,memory-size=65536,nic-count=8,spindle-use=12"
    )
    return f"min:{least}/max:{most}"


def _ip(*lines: str, inside: list[str] | None = None) -> None:
    command = [*(inside or []), "ip", "-batch", "-"]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ClusterError(f"ip: {done.stderr.strip()}")
