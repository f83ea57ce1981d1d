"""Prepare the mounts that all nodes share, before the first node starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from vcluster import mounts, patches
from vcluster.layout import CLUSTER_IP, CLUSTER_NAME, FAST_GROUP, STORE, VOLUME_GROUP, NodeSpec

ALLOCATORS = Path("/usr/lib/ganeti/iallocators")
SETTINGS = STORE / "capture.json"
STEP = STORE / "step"

_HERE = Path(__file__).resolve().parent
_FAKES = _HERE.parent / "fakes"
_FAKE_COMMANDS = {
    "lvm.py": ("lvs", "vgs", "pvs", "lvcreate", "lvremove", "lvrename", "lvextend", "lvchange"),
    "drbd.py": ("drbdsetup", "drbdmeta"),
    "block.py": ("blockdev", "dd"),
}
_PERSONAL = (".ssh", ".bashrc", ".profile", ".bash_profile", ".bash_login")
_DEVICES = {
    *("null", "zero", "full", "random", "urandom"),
    *("tty", "pts", "ptmx", "fd", "stdin", "stdout", "stderr"),
}


def prepare(specs: Iterable[NodeSpec], plugin: Path, captures: Path) -> str:
    """Prepare the calling process's mount namespace for the nodes.

    Parameters
    ----------
    specs : iterable of NodeSpec
        The nodes that will be started.
    plugin : pathlib.Path
        The allocator to run.
    captures : pathlib.Path
        Directory for requests and answers.

    Returns
    -------
    str
        The name under which Ganeti finds the allocator.
    """
    mounts.make_private()
    mounts.seal(Path("/tmp"), Path("/var/tmp"), captures)
    mounts.shadow(Path("/srv"))
    STORE.mkdir(mode=0o755)
    _storage_directories()
    mounts.shadow(Path("/etc"))  # the allocator's configuration file may be there
    patches.apply()
    _devices()
    # Of the administrator's home, hide keys and the shell's start files
    mounts.shadow(Path("/root"), keep=lambda name: name not in _PERSONAL)
    Path("/root/.ssh").mkdir(mode=0o700)
    _names(specs)
    _fake_commands()
    _operating_system()
    return _allocator(plugin, captures)


def _storage_directories() -> None:
    # The file system that holds sharedfile disks is mounted here, before the nodes exist, so that
    # all of them share it.
    ganeti = Path("/srv/ganeti")
    if ganeti.exists():
        mounts.empty_directory(ganeti)
    for name in ("file-storage", "shared-file-storage", "export", "gluster"):
        (ganeti / name).mkdir(parents=True)
    mounts.filesystem("tmpfs", ganeti / "shared-file-storage", "mode=750")


def _devices() -> None:
    mounts.shadow(Path("/dev"), keep=_DEVICES.__contains__)
    for name in (VOLUME_GROUP, FAST_GROUP):
        (Path("/dev") / name).mkdir()
    shm = Path("/dev/shm")
    shm.mkdir()
    mounts.filesystem("tmpfs", shm, "mode=1777")


def _names(specs: Iterable[NodeSpec]) -> None:
    lines = ["127.0.0.1 localhost", f"{CLUSTER_IP} {CLUSTER_NAME}"]
    lines += [f"{s.address} {s.name} node{s.number}" for s in specs]
    mounts.replace_file(Path("/etc/hosts"), "\n".join(lines) + "\n", STORE)
    # No name server can be reached from the cluster's network; do not wait for one.
    resolver = Path("/etc/resolv.conf")
    if resolver.is_file() and not resolver.is_symlink():
        mounts.replace_file(resolver, "", STORE)


def _fake_commands() -> None:
    target = Path("/usr/local/sbin")
    mounts.shadow(target)
    for script, commands in _FAKE_COMMANDS.items():
        copy = STORE / script
        shutil.copyfile(_FAKES / script, copy)
        copy.chmod(0o755)
        for command in commands:
            link = target / command
            link.unlink(missing_ok=True)
            link.symlink_to(copy)
    kvm = target / "kvm"  # Ganeti runs it for its version if kvm is a hypervisor
    kvm.write_text("#!/bin/sh\necho QEMU emulator version 7.2.0, Copyright\n", encoding="utf-8")
    kvm.chmod(0o755)


def _operating_system() -> None:
    """Define an OS with empty scripts, because instances never run."""
    system = Path("/srv/ganeti/os/noop")
    system.mkdir(parents=True)
    for name in ("create", "import", "export", "rename", "verify"):
        script = system / name
        script.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        script.chmod(0o755)
    (system / "ganeti_api_version").write_text("20\n", encoding="utf-8")
    (system / "parameters.list").touch()


def _allocator(plugin: Path, captures: Path) -> str:
    mounts.shadow(ALLOCATORS)
    name = f"captured-{plugin.stem}"
    wrapper = ALLOCATORS / name
    shutil.copyfile(_HERE / "capture.py", wrapper)
    wrapper.chmod(0o755)
    settings = {"plugin": str(plugin), "captures": str(captures), "step": str(STEP)}
    SETTINGS.write_text(json.dumps(settings), encoding="utf-8")
    return name
