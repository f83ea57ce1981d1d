"""Reading documents from files, compressed or not, and writing text."""

from __future__ import annotations

import sys

from iallocator.errors import UsageError

__all__ = ["read_file", "write_file"]

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"


def read_file(path: str) -> bytes:
    """The bytes of the file at `path`; of standard input if it is ``-``.

    What was compressed by gzip or zstd is expanded, whatever the name of the file.

    Raises
    ------
    UsageError
        If it cannot be read or expanded.
    """
    if path == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    try:
        if path == "-":
            raw = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                raw = file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if raw.startswith(GZIP):
        return _expand_gzip(path, raw)
    return _expand_zstd(path, raw) if raw.startswith(ZSTD) else raw


def _expand_gzip(path: str, raw: bytes) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: damaged gzip file: {error}") from None


def _expand_zstd(path: str, raw: bytes) -> bytes:
    from importlib import import_module

    for name in ("compression.zstd", "zstandard", "pyzstd"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        try:
            if name != "zstandard":
                return bytes(module.decompress(raw))
            stream = module.ZstdDecompressor().decompressobj()  # the short form needs the size
            expanded = bytes(stream.decompress(raw))
            if not stream.eof:
                raise EOFError("it ends too early")
            return expanded
        except Exception as error:  # each of them has an error of its own
            raise UsageError(f"{path}: damaged zstd file: {error}") from None
    raise UsageError(
        f"{path}: compressed with zstd, which this Python cannot read; "
        "expand it first, or install the module zstandard"
    )


def write_file(path: str, text: str) -> None:
    """Put `text` into the file at `path`.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
