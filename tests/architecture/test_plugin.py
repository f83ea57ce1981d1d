"""Test the plugin that `tools/write-plugin` installs, with a valid, an invalid and no bundle.

The bundle is a file with the compiled modules that a small request loads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iallocator import __version__, bundle
from tests.builders import allocate, as_bytes, cluster, instance
from tests.command import printed
from tests.paths import ROOT

from .imports import PACKAGE

LIBRARY = "usr/lib/iallocator"

PLUGIN = "usr/lib/ganeti/iallocators/iallocator"

REQUEST = as_bytes(allocate(cluster(nodes=5), disk_template="drbd"))

INSPECT = """
import importlib.util, json, sys
from importlib.resources import files
from iallocator.cli import main
main(sys.argv[1:])
import inspect, iallocator.wire.codec as codec
found = {}
for name, module in sys.modules.items():
    if name.split(".")[0] == "iallocator":
        spec = module.__spec__
        found[name] = [
            type(module.__loader__).__name__,
            module.__file__, module.__cached__, module.__package__,
            list(vars(module).get("__path__", [])),
            spec.name, spec.origin, spec.cached, spec.parent, spec.has_location,
            list(spec.submodule_search_locations or []), len(module.__loader__.get_source(name)),
            importlib.util.find_spec(name).origin,
        ]
try:
    codec.decode(None)
except Exception as error:
    step = error.__traceback__.tb_next
    place = [step.tb_frame.f_code.co_filename, step.tb_lineno]
source = inspect.getsource(codec.decode)
print(json.dumps([found, place, source, str(files("iallocator"))]), file=sys.stderr)
"""


def install(folder: Path, *libraries: Path) -> Path:
    """Install the package as a plugin in `folder`, with `libraries`; return `folder`."""
    skip = shutil.ignore_patterns("__pycache__", "tests", "f2py", "include")
    for path in (PACKAGE, *libraries):
        shutil.copytree(path, folder / LIBRARY / path.name, ignore=skip)
    tool = [sys.executable, str(ROOT / "tools/write-plugin")]
    words = [*tool, str(folder), f"/{LIBRARY}", f"/{os.path.dirname(PLUGIN)}"]
    subprocess.run(words, check=True)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the package is installed as a plugin, without its libraries."""
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def copied(installed: Path, tmp_path: Path) -> Path:
    """Return a copy of the installed plugin, which a test may change."""
    shutil.copytree(installed, tmp_path / "copy")
    return tmp_path / "copy"


def run(folder: Path, *arguments: str) -> bytes:
    """Return the output of the installed executable for `REQUEST`."""
    done = subprocess.run(
        [folder / PLUGIN, *arguments], input=REQUEST, capture_output=True, check=True
    )
    assert done.stderr == b""
    return done.stdout


def inspected(folder: Path, *arguments: str) -> Any:
    """Return the modules that the installed executable loads for `REQUEST`."""
    start, _, _ = (folder / PLUGIN).read_text().partition("from iallocator.process")
    script = f"__file__ = {str(folder / PLUGIN)!r}\n{start}{INSPECT}"
    done = subprocess.run(
        [sys.executable, "-ISc", script, *arguments],
        input=REQUEST,
        capture_output=True,
        check=True,
    )
    assert arguments or b'"success":true' in done.stdout
    return json.loads(done.stderr)


def test_modules_of_a_small_allocate_are_loaded_from_the_bundle(installed: Path) -> None:
    """Every module that a small `allocate` loads is in the bundle."""
    modules, *_ = inspected(installed)
    assert {name for name, (loader, *_) in modules.items() if loader != "Loader"} == set()


def test_modules_of_a_command_are_loaded_from_the_bundle(installed: Path) -> None:
    """Every module that a command loads is in the bundle."""
    modules, *_ = inspected(installed, "show", "-")
    assert "iallocator.commands.show" in modules
    assert {name for name, (loader, *_) in modules.items() if loader != "Loader"} == set()


def test_damaged_second_index_is_ignored(copied: Path, installed: Path) -> None:
    """Without the second index, the modules of commands are loaded from files."""
    words = ("show", "-")
    expected = run(installed, *words)
    file = copied / LIBRARY / bundle.NAME
    data = bytearray(file.read_bytes())
    data[-1] ^= 255
    file.write_bytes(data)
    assert run(copied, *words) == expected
    modules, *_ = inspected(copied, *words)
    assert modules["iallocator.commands.show"][0] == "SourceFileLoader"
    assert modules["iallocator.cli"][0] == "Loader"


def test_bundled_modules_have_the_attributes_of_modules_from_files(copied: Path) -> None:
    """Modules from the bundle have the paths, sources and resources of modules from files."""
    bundled, *others = inspected(copied)
    (copied / LIBRARY / bundle.NAME).unlink()
    normal, *expected = inspected(copied)
    assert {loader for loader, *_ in normal.values()} == {"SourceFileLoader"}
    assert {name: rest for name, (_, *rest) in bundled.items()} == {
        name: rest for name, (_, *rest) in normal.items()
    }
    assert others == expected


def flip(place: int) -> Callable[[bytes], bytes]:
    """Return a function that changes the byte at `place` of its argument."""
    return lambda data: data[:place] + bytes([data[place] ^ 255]) + data[place:][1:]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "head only": lambda data: data[: bundle.HEAD_BYTES],
    "another magic number": flip(0),
    "digest": flip(5),
    "length": flip(15),
    "index": flip(bundle.HEAD_BYTES + 200),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_invalid_bundle_is_ignored(copied: Path, installed: Path, kind: str) -> None:
    """If the bundle is invalid, modules are loaded from files, and the answer is unchanged."""
    file = copied / LIBRARY / bundle.NAME
    file.write_bytes(DAMAGE[kind](file.read_bytes()))
    assert run(copied) == run(installed)
    modules, *_ = inspected(copied)
    assert {loader for loader, *_ in modules.values()} == {"SourceFileLoader"}


def test_answer_needs_no_bundle(copied: Path, installed: Path) -> None:
    """Without the bundle, the answer is unchanged."""
    (copied / LIBRARY / bundle.NAME).unlink()
    assert run(copied) == run(installed)


def test_plan_is_made_with_the_array_library_without_docstrings(tmp_path: Path) -> None:
    """`balance` of the installed program uses its copy of the array library, and plans as usual."""
    numpy = pytest.importorskip("numpy")
    place = Path(numpy.__file__).parent
    folder = install(tmp_path, place, *place.parent.glob("numpy.libs"))
    held = {f"i{k}": instance("node1", "node2") for k in range(4)}
    document = tmp_path / "cluster.json"
    document.write_bytes(as_bytes(cluster(nodes=5, instances=held)))
    words = ["balance", "--print-commands", str(document)]
    done = subprocess.run([folder / PLUGIN, *words], capture_output=True, text=True, check=True)
    assert done.stdout == printed(*words)
    assert "gnt-instance" in done.stdout
    start, _, _ = (folder / PLUGIN).read_text().partition("from iallocator.process")
    shown = "print(numpy.sum.__doc__, numpy.ndarray.sort.__doc__)"
    script = f"__file__ = {str(folder / PLUGIN)!r}\n{start}import numpy\n{shown}"
    documented = subprocess.run([sys.executable, "-ISc", script], capture_output=True, check=True)
    assert documented.stdout == b"None None\n"


def test_damaged_code_is_not_loaded(copied: Path, installed: Path) -> None:
    """The modules of damaged or missing groups in the bundle are loaded from files."""
    file = copied / LIBRARY / bundle.NAME
    data = bytearray(file.read_bytes())
    begin = bundle.HEAD_BYTES + int.from_bytes(data[12 : bundle.HEAD_BYTES], "little")
    for place in range(begin + 100_000, len(data), 200_000):
        data[place] ^= 255
    file.write_bytes(data[: begin + 400_000])
    assert run(copied) == run(installed)
    modules, *_ = inspected(copied)
    assert {loader for loader, *_ in modules.values()} == {"Loader", "SourceFileLoader"}


@pytest.mark.parametrize("kept", ["size", "time"])
def test_edited_source_takes_effect(copied: Path, kept: str) -> None:
    """A source file with another size or modification time replaces its bundled module."""
    file = copied / LIBRARY / "iallocator/__init__.py"
    before = file.stat()
    longer = "" if kept == "size" else "\n"
    file.write_text(file.read_text().replace(f'"{__version__}"', '"9.0.0"') + longer)
    changed = before.st_mtime + (10 if kept == "size" else 0)
    os.utime(file, (changed, changed))
    assert run(copied, "--version").startswith(b"iallocator 9.")


def test_edited_source_of_a_command_takes_effect(copied: Path) -> None:
    """An edited module that no usual request loads is compiled again."""
    file = copied / LIBRARY / "iallocator/commands/plans.py"
    time = file.stat().st_mtime
    file.write_text('raise SystemExit("edited")\n')
    os.utime(file, (time, time))
    done = subprocess.run([copied / PLUGIN, "balance", "-"], capture_output=True, check=False)
    assert done.stderr == b"edited\n"


def test_new_package_replaces_a_bundled_module(copied: Path, installed: Path) -> None:
    """A package replaces a bundled module with its name.

    The source file of the module is missing then, as after an upgrade.
    """
    folder = copied / LIBRARY / "iallocator/reply"
    folder.mkdir()
    (copied / LIBRARY / "iallocator/reply.py").rename(folder / "__init__.py")
    assert run(copied) == run(installed)


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_standard_descriptors_are_not_mistaken_for_the_bundle(
    installed: Path, tmp_path: Path, closed: str
) -> None:
    """If a standard descriptor is closed, the bundle is not opened under its number."""
    request = tmp_path / "request.json"
    request.write_bytes(REQUEST)
    words = ["sh", "-c", f'exec "$0" "$1" {closed}', str(installed / PLUGIN), str(request)]
    assert subprocess.run(words, capture_output=True, check=True).stdout == run(installed)
