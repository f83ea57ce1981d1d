"""Load the modules of the package from one file instead of one file per module.

`tools/write-plugin` writes that file, the bundle, when the plugin is installed. The installed
executable calls `serve`. A module is taken from the bundle only if its source file still has the
size and the modification time (in seconds) that it had at the installation. Python loads all other
modules from their own files, and all modules if the bundle is missing or made for another Python.

Modules that the same usual calls load are in one group, which is read as a whole, and its modules
are loaded at once: strings that they share are read once, and Python does not search for each
module.

Layout: the magic number of the bytecode (4 bytes), the digest of the index (8), the length of the
index (4, little endian), the index, the groups, a second index. A group is a marshalled tuple with
the name and the code of each module, in the order in which they are loaded; the code has no
docstrings. An index is a marshalled dict from the name of a module to an `Entry`. The first index
has the modules of usual calls, and the entry `OTHERS` for the second one, which has all others.

Source: the fields that are compared are those of Python's own .pyc files (PEP 552).
"""

from __future__ import annotations

import marshal
import posix
import sys
from _frozen_importlib import ModuleSpec, module_from_spec  # importlib would load warnings
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename, source_hash  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

    Entry = tuple[int, int, bytes, bool, int, int]
    """A module in the bundle: the position of its group after the index, the length and the digest
    of the group; whether the module is a package; the size of its source file in bytes, and the
    time of its modification in seconds."""

__all__ = ["HEAD_BYTES", "NAME", "OTHERS", "digest", "serve"]

NAME = "iallocator.bundle"
"""The name of the bundle file, which is in the folder that contains the package."""

OTHERS = ""
"""The key of the first index for the second one, which is read when a module needs it."""

HEAD_BYTES = 16
"""Bytes before the index."""

LONGEST_INDEX = 1 << 20
"""The largest accepted size of an index, in bytes: a damaged length must not fill the memory."""


def digest(data: bytes) -> bytes:
    """Return 8 bytes that reveal accidental damage of `data`."""
    return source_hash(0, data)


def serve(library: str) -> None:
    """Import modules from the bundle in the folder `library`, if it is valid.

    The file stays open: a call reads only the groups that it needs.
    """
    try:
        file = posix.open(f"{library}/{NAME}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return
    head = posix.pread(file, HEAD_BYTES, 0)
    index = posix.pread(file, min(int.from_bytes(head[12:], "little"), LONGEST_INDEX), HEAD_BYTES)
    # A number below 3 means that a standard descriptor is closed. The program will redirect it.
    if file > 2 and head[:4] == MAGIC_NUMBER and head[4:12] == digest(index):
        sys.meta_path.insert(
            0, Finder(library, file, HEAD_BYTES + len(index), marshal.loads(index))
        )
    else:
        posix.close(file)


class Finder:
    """Finds modules in a bundle.

    Parameters
    ----------
    library:
        The folder that contains the package and the bundle.
    file:
        The descriptor of the open bundle.
    codes:
        The position of the first byte after the index.
    index:
        Name of a module -> its entry.
    """

    def __init__(self, library: str, file: int, codes: int, index: dict[str, Entry]) -> None:
        self._library = library
        self._file = file
        self._codes = codes
        self._index = index
        self._groups: set[int] = set()  # the positions of the groups that have been read
        self._specs: dict[str, ModuleSpec] = {}  # of their modules, until they are asked for

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to load the module `name`; None if Python must load it from its own files."""
        entry = self._index.get(name)
        if entry is None and name.startswith("iallocator."):
            self._read_others()
            entry = self._index.get(name)
        if entry is None:
            return None
        if entry[0] not in self._groups:
            self._groups.add(entry[0])
            self._load_group(entry)
        return self._specs.pop(name, None)

    def _load_group(self, entry: Entry) -> None:
        """Load the modules of the group of `entry`.

        A module is left out if it is loaded already, if Python must load it from its own files, or
        if its package is not loaded yet.
        """
        begin, length, expected, *_ = entry
        try:
            data = posix.pread(self._file, length, self._codes + begin)
        except OSError:
            return
        for name, code in marshal.loads(data) if digest(data) == expected else ():
            *_, package, size, seconds = self._index[name]
            stem = f"{self._library}/{name.replace('.', '/')}"
            source = f"{stem}/__init__.py" if package else f"{stem}.py"
            try:
                status = posix.stat(source)
            except OSError:
                continue
            parent, _, last = name.rpartition(".")
            if status[6] != size or status[8] != seconds or name in sys.modules:
                continue
            loader = Loader(name, source, code)
            spec = ModuleSpec(name, loader, origin=source)
            if package:
                spec.submodule_search_locations = [stem]
            spec.has_location = True
            folder, _, base = source.rpartition("/")
            spec.cached = f"{folder}/__pycache__/{base[:-2]}{sys.implementation.cache_tag}.pyc"
            self._specs[name] = spec
            if parent and parent not in sys.modules:
                continue
            module = module_from_spec(spec)
            sys.modules[name] = module
            try:
                loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
            loader.ready = module
            if parent:
                setattr(sys.modules[parent], last, module)

    def _read_others(self) -> None:
        """Add the second index, unless that is done or it is damaged."""
        begin, length, expected, *_ = self._index.pop(OTHERS, (0, 0, b""))
        index = posix.pread(self._file, length, self._codes + begin)
        if digest(index) == expected:
            self._index.update(marshal.loads(index))


class Loader(SourceFileLoader):
    """Loads the module `name` of the file `source` from its `code`."""

    ready: ModuleType | None = None
    """The module, if it was executed already."""

    def __init__(self, name: str, source: str, code: CodeType) -> None:
        super().__init__(name, source)
        self._code = code

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module if it was executed already; None: Python makes one."""
        return self.ready

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, unless that is done."""
        if module is not self.ready:
            super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the module."""
        _fix_co_filename(self._code, self.path)  # the tree may have been moved
        return self._code
