#!/usr/bin/python3 -IS
"""Replace drbdsetup and drbdmeta (syntax 8.4) without DRBD.

The script stores the configuration, and writes the status file that Ganeti reads. No data are
copied: a device with a disk and a peer is in sync at once. If the file `SYNC_SECONDS` exists on the
node, it has the seconds that a new device needs to sync.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import NoReturn, TypedDict

STATE = Path("/run/e2e/drbd.json")
STATUS = Path("/run/e2e/drbd-status")
SYNC_SECONDS = Path("/run/e2e/drbd-sync-seconds")
VERSION = "version: 8.4.11 (api:1/proto:86-101)"


class Device(TypedDict, total=False):
    """The stored configuration of one drbd device, by minor number."""

    disk: str
    meta: str
    local: str
    remote: str
    both_primary: bool
    primary: bool
    begun: float
    synced: float


Devices = dict[str, Device]  # by minor


def _fail(message: str) -> NoReturn:
    print(f"drbdsetup: {message}", file=sys.stderr)
    sys.exit(10)


def _status_line(minor: str, device: Device) -> str:
    connected, attached = "local" in device, "disk" in device
    role = "Primary" if device.get("primary") else "Secondary"
    # The role of the peer is not known here: assume the role that Ganeti expects.
    if not connected:
        peer = "Unknown"
    elif device.get("both_primary") or role == "Secondary":
        peer = "Primary"
    else:
        peer = "Secondary"
    connection = "Connected" if connected else "StandAlone"
    left = device.get("synced", 0.0) - time.time()
    if connected and attached and left > 0:
        percent = 100 * (1 - left / (device["synced"] - device["begun"]))
        return (
            f"{minor:>2}: cs:SyncTarget ro:{role}/{peer} ds:Inconsistent/UpToDate C r-----\n"
            "    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:1\n"
            f"\t[=>..................] sync'ed: {percent:4.1f}% (1/1)M\n"
            f"\tfinish: 0:00:{int(left) % 60:02} speed: 1,000 (1,000) K/sec"
        )
    disks = f"{'UpToDate' if attached else 'Diskless'}/{'UpToDate' if connected else 'DUnknown'}"
    return (
        f"{minor:>2}: cs:{connection} ro:{role}/{peer} ds:{disks} C r-----\n"
        "    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0"
    )


def _publish(devices: Devices) -> None:
    lines = [VERSION, *(_status_line(m, devices[m]) for m in sorted(devices, key=int))]
    for path, text in ((STATE, json.dumps(devices)), (STATUS, "\n".join(lines) + "\n")):
        fresh = path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)


def _show(minor: str, device: Device) -> None:
    print(f"resource resource{minor} {{\n    options {{\n    }}\n    net {{\n    }}")
    if "remote" in device:
        print(f"    _remote_host {{\n        address\t\t{device['remote']};\n    }}")
    print("    _this_host {")
    if "local" in device:
        print(f"        address\t\t{device['local']};")
    print(f"        volume 0 {{\n            device\t\tminor {minor};")
    if "disk" in device:
        print(
            f'            disk\t\t"{device["disk"]}";\n            meta-disk\t\t"{device["meta"]}";'
        )
    print("        }\n    }\n}")


def _address(word: str) -> str:
    family, rest = word.split(":", 1)
    return f"{family} {rest}"


def _attach(device: Device, words: list[str]) -> None:
    if "disk" in device:
        _fail("Device is attached to a disk (use detach first)")
    for path in words[:2]:
        if not Path(path).exists():
            _fail(f"Can not open backing device {path}")
    device["disk"], device["meta"] = words[:2]
    if SYNC_SECONDS.exists():
        device["begun"] = time.time()
        device["synced"] = device["begun"] + float(SYNC_SECONDS.read_text(encoding="utf-8"))


def _connect(device: Device, words: list[str]) -> None:
    if "local" in device:
        _fail("Device has a net-config (use disconnect first)")
    device["local"], device["remote"] = _address(words[0]), _address(words[1])
    device["both_primary"] = "--allow-two-primaries" in words


def _disconnect(devices: Devices, words: list[str]) -> None:
    ends = [_address(word) for word in words[:2]]
    for device in devices.values():
        if [device.get("local"), device.get("remote")] == ends:
            del device["local"], device["remote"]
            device["both_primary"] = False


def _run(devices: Devices, command: str, words: list[str]) -> None:
    if command in ("new-resource", "disk-options", "pause-sync", "resume-sync", "resize"):
        return
    if command == "new-minor":
        devices.setdefault(words[1], {})
    elif command == "disconnect":
        _disconnect(devices, words)
    else:
        match = re.fullmatch(r"(?:resource)?([0-9]+)", words[0])
        if not match:
            _fail(f"{words[0]}: no such resource")
        _run_on_minor(devices, command, match[1], words[1:])


def _run_on_minor(devices: Devices, command: str, minor: str, words: list[str]) -> None:
    device = devices.get(minor)
    if command == "down":
        devices.pop(minor, None)
    elif device is None:
        if command != "show":
            _fail(f"{minor}: no such minor")
    elif command == "show":
        _show(minor, device)
    elif command == "attach":
        _attach(device, words)
    elif command == "connect":
        _connect(device, words)
    elif command == "detach":
        device.pop("disk", None)
        device.pop("meta", None)
    elif command in ("primary", "secondary"):
        device["primary"] = command == "primary"
    else:
        _fail(f"{command}: not known here")


def _follow_syncs() -> None:
    """Update the status every half second in the background while a device is syncing."""
    if os.fork():
        return
    os.setsid()
    nowhere = os.open("/dev/null", os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    syncing = True
    while syncing:
        time.sleep(0.5)
        with STATE.with_suffix(".lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            devices: Devices = json.loads(STATE.read_text(encoding="utf-8"))
            syncing = any(one.get("synced", 0.0) > time.time() for one in devices.values())
            _publish(devices)
    os._exit(0)


def main() -> int:
    """Run the replaced command that has the name of this program.

    Returns
    -------
    int
        Exit status.
    """
    if Path(sys.argv[0]).name == "drbdmeta":
        return 0  # there is no metadata to create or replay
    with STATE.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        devices: Devices = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
        _run(devices, sys.argv[1], sys.argv[2:])
        _publish(devices)
    if sys.argv[1] in ("attach", "connect") and SYNC_SECONDS.exists():
        _follow_syncs()
    return 0


if __name__ == "__main__":
    sys.exit(main())
