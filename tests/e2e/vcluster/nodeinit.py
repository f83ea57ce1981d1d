"""Process 1 of a node: gives the node its own files, starts its sshd, and then waits.

The process runs in new mount, network, pid, uts and ipc namespaces, with the node's description as
its argument. It prints ``ready``. When its standard input ends, because the cluster is torn down or
the parent process has died, it exits, and the kernel ends every other process of the node.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from vcluster import mounts
from vcluster.layout import FAST_GROUP, NODE_STATE, VOLUME_GROUP, VOLUME_GROUPS, NodeSpec
from vcluster.patches import DRBD_STATUS, USERMODE_HELPER

_SSHD_CONFIG = "PermitRootLogin yes\nUsePAM yes\nPrintMotd no\nUseDNS no\n"


def _own_files() -> None:
    mounts.filesystem("proc", Path("/proc"))
    mounts.filesystem("sysfs", Path("/sys"))
    mounts.filesystem("tmpfs", Path("/run"), "mode=755")
    for name in ("lock", "sshd", "ganeti"):
        (Path("/run") / name).mkdir()
    Path("/run/lock").chmod(0o1777)
    NODE_STATE.mkdir()
    for name in (VOLUME_GROUP, FAST_GROUP):
        mounts.filesystem("tmpfs", Path("/dev") / name)
    for name in ("/var/lib/ganeti", "/var/log/ganeti", "/etc/ssh", "/root/.ssh"):
        mounts.empty_directory(Path(name))
    mounts.empty_directory(Path("/srv/ganeti/file-storage"))
    mounts.private_copy(Path("/etc/ganeti"))
    Path("/etc/ssh/sshd_config").write_text(_SSHD_CONFIG, encoding="utf-8")
    allowed = Path("/etc/ganeti/file-storage-paths")
    allowed.write_text(
        "/srv/ganeti/file-storage\n/srv/ganeti/shared-file-storage\n", encoding="utf-8"
    )
    allowed.chmod(0o644)


def _claims(spec: NodeSpec) -> None:
    """Give the node the memory and the processors of its description."""
    total = spec.memory * 1024
    meminfo = {
        "MemTotal": total,
        "MemFree": total - 1024 * 1024,
        "MemAvailable": total - 1024 * 1024,  # Ganeti 3.1 reads this instead of the others
        "Buffers": 0,
        "Cached": 0,
        "Active": 1024 * 1024,
    }
    text = "".join(f"{key}: {value} kB\n" for key, value in meminfo.items())
    mounts.replace_file(Path("/proc/meminfo"), text, NODE_STATE)
    text = "".join(f"processor\t: {n}\n\n" for n in range(spec.cpus))
    mounts.replace_file(Path("/proc/cpuinfo"), text, NODE_STATE)
    # Ganeti's power cycling writes here, and this file is the machine's, not the node's.
    sysrq = Path("/proc/sysrq-trigger")
    if sysrq.exists():
        mounts.replace_file(sysrq, "", NODE_STATE)
    arguments = {"NODED": f"--no-mlock -b {spec.address}", "RAPI": f"-b {spec.address}"}
    text = "".join(f'{name}_ARGS="{value}"\n' for name, value in arguments.items())
    mounts.replace_file(Path("/etc/default/ganeti"), text, NODE_STATE)
    groups = {VOLUME_GROUP: spec.disk}
    (NODE_STATE / VOLUME_GROUPS).write_text(json.dumps(groups), encoding="utf-8")
    USERMODE_HELPER.write_text("/bin/true\n", encoding="utf-8")
    DRBD_STATUS.write_text("version: 8.4.11 (api:1/proto:86-101)\n", encoding="utf-8")


def _ssh() -> None:
    subprocess.run(["ssh-keygen", "-q", "-A"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["/usr/sbin/sshd"], check=True)


def _wait_for_the_end() -> None:
    """Reap orphans, as process 1 must, until standard input ends."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if 0 in ready and not os.read(0, 4096):
            return


def main() -> int:
    """Set up the node, and wait.

    Returns
    -------
    int
        Exit status.
    """
    spec = NodeSpec(**json.loads(sys.argv[1]))
    socket.sethostname(spec.name)
    _own_files()
    _claims(spec)
    _ssh()
    print("ready", flush=True)
    _wait_for_the_end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
