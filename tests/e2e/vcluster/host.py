"""Check the requirements on the machine: root, Debian packages, namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# ganeti brings the htools, hail among them; ganeti-htools by itself conflicts with it.
PACKAGES = ("ganeti", "openssh-server", "iproute2", "lvm2")
PYTHON = "/usr/bin/python3"

_INSIDE = "E2E_INSIDE"
_NO_SERVICES = Path("/usr/sbin/policy-rc.d")


class CannotRunError(Exception):
    """Raised if the machine does not meet a requirement."""


def missing_packages() -> list[str]:
    """Return the names of the packages that are not installed."""
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}", "--"]
    return [
        name
        for name in PACKAGES
        if not subprocess.run(
            [*query, name], capture_output=True, text=True, check=False
        ).stdout.startswith("ii")
    ]


def check() -> None:
    """Make sure the cluster can run here, installing packages if need be.

    Raises
    ------
    CannotRunError
        With the reason.
    """
    if os.geteuid() != 0:
        raise CannotRunError("must be root: it makes namespaces and mounts")
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        raise CannotRunError("needs a Debian system: dpkg-query and apt-get are not there")
    missing = missing_packages()
    if missing:
        print(f"installing {' '.join(missing)}", flush=True)
        _install(missing)
    probe = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--uts",
        "--ipc",
        "--fork",
        "mount",
        "-t",
        "tmpfs",
        "e2e",
        "/mnt",
    ]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRunError(
            f"the kernel or container forbids namespaces and mounts: {done.stderr.strip()}"
        )


def _install(names: list[str]) -> None:
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *names]
    with _services_stay_off():
        done = _apt(install)
        if done.returncode != 0:
            _apt(["apt-get", "update", "--quiet"])
            done = _apt(install)
    if done.returncode != 0:
        raise CannotRunError(f"{' '.join(install)} failed:\n{(done.stdout + done.stderr)[-1500:]}")


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@contextlib.contextmanager
def _services_stay_off() -> Iterator[None]:
    """Keep the packages from starting their services on this machine."""
    if _NO_SERVICES.exists():
        yield
        return
    _NO_SERVICES.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    _NO_SERVICES.chmod(0o755)
    try:
        yield
    finally:
        _NO_SERVICES.unlink(missing_ok=True)


def enter_namespaces() -> None:
    """Start this program again, with its own mounts and network.

    Returns at once in the restarted program. The process ID is unchanged, so that signals reach it,
    and the namespaces end with it and its children.
    """
    if os.environ.pop(_INSIDE, None):
        return
    command = ["unshare", "--mount", "--net", "--propagation", "private", PYTHON, "-B", *sys.argv]
    os.execvpe(command[0], command, {**os.environ, _INSIDE: "1"})
