"""Find out whether a machine answers at an address, as `ping` does, and as Ganeti does by TCP."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from time import monotonic

__all__ = ["answers_ping"]

PORTS = (1811, 22)
"""Ports of the node daemon and of ssh. A machine that rejects a connection answers, too."""

PING_SECONDS = 2.0
"""The time limit of each attempt, in seconds."""

PING_ATTEMPTS = 2
"""The number of attempts: a single lost packet must not make a machine count as dead."""

ECHO = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""Family of an address -> the ICMP types of an echo request and of its reply."""


def answers_ping(address: str) -> bool:
    """Return whether the machine at the IP `address` answers; takes up to 12 s if it does not.

    It answers if it accepts or rejects a TCP connection, or replies to an ICMP echo request. Only
    root may send echo requests on most systems; without that right, only TCP decides.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for _ in range(PING_ATTEMPTS):
        if _echoes(family, address) or any(_connects(family, address, port) for port in PORTS):
            return True
    return False


def _connects(family: socket.AddressFamily, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(PING_SECONDS)
        try:
            client.connect((address, port))
        except ConnectionRefusedError:
            return True
        except OSError:  # no route, no answer in time
            return False
        return True


def _echoes(family: socket.AddressFamily, address: str) -> bool:
    """Return whether the address replies to an echo request; False without the right to send it."""
    request, reply = ECHO[family]
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    content = os.urandom(16)
    header = struct.pack("!BBHHH", request, 0, 0, os.getpid() & 0xFFFF, 1)
    if family == socket.AF_INET:  # the kernel computes the checksum of IPv6
        checksum = _checksum(header + content)
        header = struct.pack("!BBHHH", request, 0, checksum, os.getpid() & 0xFFFF, 1)
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        with suppress(OSError), socket.socket(family, kind, protocol) as client:
            client.connect((address, 0))
            end = monotonic() + PING_SECONDS
            client.send(header + content)
            while (left := end - monotonic()) > 0:
                client.settimeout(left)
                answer = client.recv(2048)
                if kind == socket.SOCK_RAW and family == socket.AF_INET:
                    answer = answer[(answer[0] & 0x0F) * 4 :]
                if answer[:1] == bytes([reply]) and answer[8:] == content:
                    return True
            return False
    return False


def _checksum(data: bytes) -> int:
    """Return the checksum of the Internet (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
