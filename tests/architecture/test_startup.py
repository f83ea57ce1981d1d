"""Test that the program loads only the modules that a request needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iallocator.commands import COMMANDS
from tests.builders import allocate, as_bytes, cluster, instance

from .imports import PACKAGE
from .runs import run_with_modules

SLOW = (
    "numpy", "orjson", "jsonschema", "dataclasses", "inspect", "typing", "argparse", "asyncio",
    "email", "logging", "pathlib", "subprocess", "tempfile", "unittest", "urllib", "socket",
)  # fmt: skip
"""Modules that a small request must not load; json would load re and enum."""


def loaded(raw: bytes, *arguments: str) -> set[str]:
    """Return the modules that a new process loads to answer the request `raw`."""
    answer, modules = run_with_modules(*arguments, raw=raw)
    assert '"success":' in answer
    return modules


@pytest.mark.parametrize("command", [*COMMANDS])
def test_help_loads_nothing_that_only_the_command_itself_needs(command: str) -> None:
    """The help of a command loads no modules that only its work needs."""
    _, modules = run_with_modules(command, "--help")
    names = {module.split(".")[0] for module in modules}
    assert not names & {"dataclasses", "inspect", "jsonschema", "numpy", "orjson", "typing"}


@pytest.mark.parametrize("template", ["plain", "drbd", "rbd"])
def test_small_allocate_loads_nothing_slow(template: str) -> None:
    """A small allocate loads no module that takes long to load."""
    modules = loaded(as_bytes(allocate(cluster(nodes=4), disk_template=template)))
    assert not {module.split(".")[0] for module in modules} & {*SLOW, "importlib"}


def test_small_allocate_loads_only_its_own_handler() -> None:
    """A small allocate loads no handlers of other requests, and nothing of explain and replay."""
    modules = loaded(as_bytes(allocate(cluster(nodes=4))))
    handlers = {m.split(".")[2] for m in modules if m.startswith("iallocator.handlers.")}
    assert handlers == {"allocate"}
    engine = {m.split(".")[2] for m in modules if m.startswith("iallocator.placement.")}
    assert engine == {
        "context",
        "evaluator",
        "groups",
        "limit_policy",
        "new",
        "results",
        "score_scope",
    }
    packages = {m.split(".")[1] for m in modules if m.startswith("iallocator.")}
    assert not packages & {"explain", "render", "replay", "transition"}
    assert "iallocator.requests.existing" not in modules


@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_small_allocate_loads_no_simulation_of_failures(template: str) -> None:
    """A small allocate with enough free memory loads no simulation of failures."""
    modules = loaded(as_bytes(allocate(cluster(nodes=4), disk_template=template)))
    stages = {m.split(".")[2] for m in modules if m.startswith("iallocator.n1.")}
    assert stages <= {"bounds", "failure_watch", "tolerance"}


def test_check_of_healthy_cluster_loads_nothing_slow() -> None:
    """The check of a healthy cluster loads no arrays, request handlers or transitions."""
    held = {f"i{k}": instance("node1", "node2") for k in range(3)}
    raw = as_bytes(cluster(nodes=4, instances=held))
    answer, modules = run_with_modules("check", "--machine-readable", "-", raw=raw)
    assert "NEED_REBALANCE=0" in answer
    assert not {m.split(".")[0] for m in modules} & {*SLOW, "functools", "re"}
    packages = {m.split(".")[1] for m in modules if m.startswith("iallocator.")}
    assert not packages & {"explain", "handlers", "placement", "replay", "tags", "transition"}


def test_installed_script_loads_no_regular_expressions() -> None:
    """The installed script does not import `re`, unlike the script that pip makes."""
    command = [sys.executable, "-S", "-X", "importtime", str(PACKAGE.parent / "bin/iallocator")]
    raw = as_bytes(allocate(cluster(nodes=4)))
    environment = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, input=raw, capture_output=True, check=True, env=environment)
    names = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "iallocator.process" in names
    assert not names & {"re", "enum", "functools"}


def test_large_allocate_loads_the_array_library() -> None:
    """An allocate on many nodes loads NumPy, so the tests of small requests can fail."""
    raw = as_bytes(allocate(cluster(nodes=400)))
    _, modules = run_with_modules(raw=raw, site=True)
    assert "numpy" in modules
