"""Write files completely, or not at all."""

from __future__ import annotations

import os
import sys
from errno import EACCES, EISDIR, ENAMETOOLONG, ENOENT

from iallocator.errors import UsageError

__all__ = ["check_writable", "is_stdout", "write_file"]


def is_stdout(path: str | None) -> bool:
    """Return whether an option that is given `path` writes to standard output.

    It does if `path` is ``-``, or a link to descriptor 1 of the process, as ``/dev/stdout`` is. The
    files are not compared, because descriptor 1 leads to stderr while the program runs.
    """
    if not path or path == "-":
        return path == "-"
    link = path.replace("\0", "")
    for _ in range(40):  # as many symbolic links as Linux follows
        folder, name = os.path.split(link)
        folder = os.path.realpath(folder)
        if folder == f"/proc/{os.getpid()}/fd":
            return name == "1"
        try:
            link = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except OSError:  # no symbolic link
            return False
    return False


def check_writable(*paths: str | None) -> None:
    """Report before long work that a file at one of `paths` cannot be written.

    None, "" and ``-`` are no files, and are ignored. A failure that happens after the check (a full
    disk, for example) is reported when the file is written.

    Raises
    ------
    UsageError
        If the folder does not exist, the name is too long, or writing is not allowed.
    """
    for path in paths:
        if not path or is_stdout(path):
            continue
        if _is_special(path) and not os.path.isdir(path) and os.access(path, os.W_OK):
            continue  # also a pipe, as in /dev/fd/63, which has no real path
        target = os.path.realpath(path.replace("\0", ""))
        folder = os.path.dirname(target)
        wrong = 0
        try:
            os.lstat(target)
        except OSError as error:
            if error.errno == ENAMETOOLONG:
                wrong = ENAMETOOLONG
        if os.path.isdir(target):
            wrong = EISDIR
        elif not os.path.isdir(folder):
            wrong = wrong or ENOENT
        elif _is_special(target) or not os.access(folder, os.W_OK):
            wrong = EACCES
        if wrong:
            raise UsageError(f"{path}: {os.strerror(wrong)}")


def _is_special(path: str) -> bool:
    """Return whether `path` is something other than a regular file."""
    return os.path.exists(path) and not os.path.isfile(path)


def write_file(path: str, text: str) -> None:
    """Write `text` to the file at `path` completely, or leave the file as it was.

    The text is written to a temporary file, which is renamed. Therefore neither a full disk nor a
    second writer leaves a part of it. Other files (a pipe, a terminal) are written to directly.
    ``/dev/stdout`` is standard output; ``-`` is a file of that name.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    try:
        if path != "-" and is_stdout(path):
            sys.stdout.write(text)
        elif _is_special(path):
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        else:
            # A temporary file with the permissions of the old one is renamed
            target = os.path.realpath(path)
            folder, name = os.path.split(target)
            beside = os.path.join(folder, f".{name[:50]}.{os.urandom(8).hex()}.new")
            mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else None
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                with open(handle, "wb") as new:
                    new.write(text.encode("utf-8", "backslashreplace"))
                    new.flush()
                    os.fsync(new.fileno())
                    if mode is not None:
                        os.fchmod(new.fileno(), mode)
                os.replace(beside, target)
            except BaseException:
                os.unlink(beside)
                raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # a name with a NUL byte
        raise UsageError(f"{path}: {error}") from None
