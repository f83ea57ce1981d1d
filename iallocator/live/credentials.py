"""User and password for RAPI: never from the command line, which everybody on a machine sees.

The first of these that says something counts: ``--credentials FILE`` (a line ``USER
PASSWORD``, as in the users file of RAPI itself), the environment variables
``IALLOCATOR_RAPI_USER`` and ``IALLOCATOR_RAPI_PASSWORD``, the netrc file (``$NETRC``, or
``~/.netrc``).
"""

from __future__ import annotations

import os

from iallocator.errors import UsageError
from iallocator.files import read_file

__all__ = ["PASSWORD", "USER", "find_credentials"]

USER = "IALLOCATOR_RAPI_USER"
PASSWORD = "IALLOCATOR_RAPI_PASSWORD"

CLEARTEXT = "{cleartext}"
"""What may stand before a password in the users file of RAPI."""


def find_credentials(host: str, path: str = "") -> tuple[str, str] | None:
    """User and password for `host`; `path` names a file with them; None if nobody knows any.

    Raises
    ------
    UsageError
        If a place that should say does not.
    """
    if path:
        return _from_file(path)
    if os.environ.get(USER):
        return os.environ[USER], os.environ.get(PASSWORD, "")
    return _from_netrc(host)


def _from_file(path: str) -> tuple[str, str]:
    for line in read_file(path).decode("utf-8", "replace").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) >= 2:
            return words[0], words[1].removeprefix(CLEARTEXT)
        break
    raise UsageError(f"{path}: expected a line with user and password")


def _from_netrc(host: str) -> tuple[str, str] | None:
    import netrc

    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    if not os.path.exists(path):
        return None
    try:
        found = netrc.netrc(path).authenticators(host)
    except netrc.NetrcParseError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}") from None
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return (found[0], found[2] or "") if found else None
