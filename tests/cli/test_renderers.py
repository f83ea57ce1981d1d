"""Test that the table of renderers has every document and output format of a command."""

from __future__ import annotations

from importlib import import_module

import pytest

from iallocator.commands import COMMANDS, settings_of
from iallocator.render import DRAWING, PAGE, RENDERERS, TEXT

MEDIA = {"json": TEXT, "html": PAGE, "graph": DRAWING}
"""Attribute of the settings -> the format that its option requires, or replaces."""


@pytest.mark.parametrize("command", COMMANDS)
def test_document_of_a_command_has_a_renderer_for_each_of_its_options(command: str) -> None:
    """Each command with `--html`, `--graph` or `--json` has the renderers for them."""
    targets = {option.target for option in settings_of(command).options}
    wanted = {medium for target, medium in MEDIA.items() if target in targets}
    assert wanted <= RENDERERS[COMMANDS[command].document].keys()


@pytest.mark.parametrize("kind", RENDERERS)
def test_renderers_are_functions_of_the_package(kind: str) -> None:
    """Each entry of the table names a function in a module of `iallocator.render`."""
    assert kind in {row.document for row in COMMANDS.values()}
    for entry in RENDERERS[kind].values():
        module, _, function = entry.partition(":")
        assert callable(getattr(import_module(f"iallocator.render.{module}"), function))
