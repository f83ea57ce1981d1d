"""Read files, compressed or not; write to stdout completely."""

from __future__ import annotations

import io
import posix  # `os` loads more: see `iallocator.light`
import sys
from _stat import S_ISREG  # the part in C, which is in the interpreter

from iallocator.deadline import Deadline, Held
from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

__all__ = ["LARGEST_INPUT", "WholeOutput", "read_file"]

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"

LARGEST_INPUT = 1024**3
"""Most bytes that are read, and most bytes after decompression: 1 GiB."""

DECOMPRESSED_AT_ONCE = 1024**2
"""Bytes of expanded data that are read at a time, so that a decompression bomb is noticed early."""

BYTES_PER_EXPANSION = 1024
"""Compressed bytes that are expanded at a time: a few bytes may expand to 128 KiB."""


def read_file(path: str, limit: int = LARGEST_INPUT) -> bytes:
    """Return the bytes of the file at `path`; ``-`` is standard input.

    Content that was compressed by gzip or zstd is decompressed, whatever the name of the file.

    Raises
    ------
    UsageError
        If the file cannot be read or decompressed, or has more than `limit` bytes.
    """
    try:
        if path == "-":
            if sys.stdin is None:
                raise UsageError("standard input is closed")
            raw = _read(path, sys.stdin.buffer, limit)
        else:

            def opener(path: str, flags: int) -> int:
                """Open a file without waiting: opening a pipe without a writer would block."""
                return posix.open(path, flags | posix.O_NONBLOCK)

            with open(path, "rb", opener=opener) as file:
                _check(path, posix.fstat(file.fileno()).st_size, limit)
                raw = _read(path, file, limit)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # a name with a NUL byte
        raise UsageError(f"{path}: {error}") from None
    if raw.startswith(GZIP):
        return _joined(path, _expanded_gzip(path, raw), limit)
    return _joined(path, _expanded_zstd(path, raw), limit) if raw.startswith(ZSTD) else raw


def _read(path: str, file: BinaryIO, limit: int) -> bytes:
    try:
        number = file.fileno()
    except OSError:  # a buffer that stands for standard input
        return _joined(path, iter(lambda: file.read(DECOMPRESSED_AT_ONCE), b""), limit)
    if S_ISREG(posix.fstat(number).st_mode):
        return _joined(path, iter(lambda: posix.read(number, DECOMPRESSED_AT_ONCE), b""), limit)
    waiting = Deadline(None)

    def part() -> bytes:
        """Wait for the next bytes, and return them; a signal ends the wait."""
        waiting.wait(number, "")
        return posix.read(number, DECOMPRESSED_AT_ONCE)

    return _joined(path, iter(part, b""), limit)


def _check(path: str, size: int, limit: int) -> None:
    if size > limit:
        raise UsageError(f"{path}: more than {limit} bytes, the most that is read (--max-input)")


def _joined(path: str, parts: Iterable[bytes], limit: int) -> bytes:
    """Return all `parts` as one value, if they are not too large."""
    size, kept = 0, []
    for part in parts:
        size += len(part)
        _check(path, size, limit)
        kept.append(part)
    return b"".join(kept)


def _expanded_gzip(path: str, raw: bytes) -> Iterator[bytes]:
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while part := file.read(DECOMPRESSED_AT_ONCE):
                yield part
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: damaged gzip file: {error}") from None


def _expanded_zstd(path: str, raw: bytes) -> Iterator[bytes]:
    from importlib import import_module

    for name, expand in (
        ("compression.zstd", _by_file),
        ("pyzstd", _by_file),
        ("zstandard", _by_slices),
    ):
        try:
            module = import_module(name)
        except ImportError:
            continue
        try:
            yield from expand(module, raw)
        except Exception as error:  # each of them has an error of its own
            raise UsageError(f"{path}: damaged zstd file: {error}") from None
        return
    raise UsageError(
        f"{path}: compressed with zstd, which this Python cannot read; "
        "expand it first, or install the module zstandard"
    )


def _by_file(module: Any, raw: bytes) -> Iterator[bytes]:
    with module.ZstdFile(io.BytesIO(raw)) as file:
        while part := file.read(DECOMPRESSED_AT_ONCE):
            yield bytes(part)


def _by_slices(module: Any, raw: bytes) -> Iterator[bytes]:
    """Yield decompressed parts, from slices of `raw`."""
    stream = module.ZstdDecompressor().decompressobj()
    for start in range(0, len(raw), BYTES_PER_EXPANSION):
        if not stream.eof:
            yield bytes(stream.decompress(raw[start : start + BYTES_PER_EXPANSION]))
    if not stream.eof:
        raise EOFError("it ends too early")


class WholeOutput:
    """A ``with`` block in which a signal does not end the run: what is printed in it is whole.

    A second signal ends the process: the program that reads the output may have stopped reading.
    """

    def __enter__(self) -> None:
        self._held = Held()
        self._held.__enter__()

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and sys.stdout is not None:
                sys.stdout.flush()
        finally:
            self._held.__exit__()
