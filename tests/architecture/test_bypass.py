"""Test that names in strings, aliases and re-exports do not bypass the tables of imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from iallocator.model.templates import TEMPLATES

from .imports import imports, nodes, package_of, sources, tree
from .test_kernel import MAKERS, MAY_ASK, QUESTIONS

ELSEWHERE_TOO = {"pairs", "secondaries", "singles"}
"""Names of kernel methods that other classes use too; only calls of these are counted."""


MAY_CHOOSE_LIMITS = {
    "limits": "puts the checks of all constraints in order",
    "scoring": "checks them for candidates",
    "n1": "checks those that failovers enforce",
    "placement": "the evaluator: which limits apply to which instance",
    "transition.execution": "checks every step against the hard limits",
    "planners.verify": "the verifier: shares the table with the planner of the plan",
    "planners.outcome": "the verifier: compares the final state with the initial one",
    "planners.restarts": "the simulation of the verifier: tests each node that takes over",
    "planners.balance.scan": "approximates; the evaluator confirms each proposal",
    "planners.balance.score_model": "finds the nodes where a role never fits, for a bound",
    "compat.htools.first_fit": "adds amounts up for hroller, where all limits are about sums",
    "planners.squeeze.headroom": "checks whether a reserve is free, without placing anything",
}
"""Package or module -> why it may choose the limits that are enforced."""


def _entry(module: str, table: Mapping[str, str]) -> str:
    """Return the entry of `table` that applies to `module`; "" if there is none."""
    name = module.removeprefix("iallocator.")
    return next((one for one in table if name == one or name.startswith(one + ".")), "")


def _may_ask(module: str) -> bool:
    return bool(_entry(module, MAY_ASK))


def test_limits_are_chosen_only_where_the_table_permits() -> None:
    """Only modules in the table choose the limits that are enforced; others ask an evaluator."""
    chosen = {found.module for found in imports() if "checks_for" in found.given}
    wrong = {module for module in chosen if not _entry(module, MAY_CHOOSE_LIMITS)}
    assert wrong == set()
    assert {_entry(module, MAY_CHOOSE_LIMITS) for module in chosen} | {"limits"} == set(
        MAY_CHOOSE_LIMITS
    )


def _outside() -> Iterator[tuple[str, ast.AST]]:
    """Yield (module, syntax node) for all code of the modules that must not use the kernel."""
    yield from ((module, node) for module, node in nodes() if not _may_ask(module))


def test_kernels_are_made_only_by_permitted_modules() -> None:
    """Only permitted modules create kernels, directly or under another name.

    Imports for types are permitted.
    """
    wrong = [
        str(found)
        for found in imports()
        if not found.typing and set(found.given) & MAKERS and not _may_ask(found.module)
    ]
    assert not wrong, "\n".join(wrong)


def test_queries_of_the_kernel_are_not_stored() -> None:
    """No module stores a method of a kernel, or names one in a string, to call it later."""
    names = (QUESTIONS - ELSEWHERE_TOO) | MAKERS
    wrong = [
        f"{module} names {ast.unparse(node)}"
        for module, node in _outside()
        if (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.Constant) and node.value in names)
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_named_in_strings_are_in_the_package_that_loads_them() -> None:
    """A module that is named in a string belongs to the package that loads it."""
    wrong = [
        f"{module} loads {start}"
        for module, start in _loaded_by_name()
        if start.split(".")[0] == "iallocator" and package_of(start) != package_of(module)
    ]
    assert not wrong, "\n".join(wrong)


def _loaded_by_name() -> Iterator[tuple[str, str]]:
    """Yield (module, constant beginning of the name) for each module that it loads by name."""
    for module, node in nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "__import__")
        ):
            first = node.args[0]
            if isinstance(first, ast.JoinedStr):
                first = first.values[0]
            yield module, str(first.value) if isinstance(first, ast.Constant) else ""


def test_loading_by_name_is_found() -> None:
    """The search for names in strings finds the loaders of strategies, handlers and commands."""
    packages = {package_of(module) for module, start in _loaded_by_name() if start}
    assert {"ranking", "handlers", "commands", "compat"} <= packages


def test_names_are_imported_from_their_definition() -> None:
    """No module re-exports a name of another one, except a package from its own modules."""
    wrong = [f"{module} hands {name} on" for module in sources() for name in _handed_on(module)]
    assert not wrong, "\n".join(wrong)


def _handed_on(module: str) -> set[str]:
    """Return the names in ``__all__`` that a module imports from outside its package."""
    public: set[str] = set()
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = set(ast.literal_eval(node.value))
    return public.intersection(
        name
        for found in imports()
        if found.module == module and not (found.late or found.imported.startswith(module + "."))
        for name in found.names
    )


# Tags are read in few places, which give their meaning to all others.

MAY_READ = {
    "tags": "what this program's own tags mean",
    "constraints": "what the tags of instances mean",
    "wire": "documents are read there, storage pools by tags too",
    "compat.htools.hinfo": "prints the tags of the cluster",
    "compat.htools.hbal": "prints the tags of the cluster",
    "compat.htools.request_details": "prints the tags of groups",
    "sources": "text files are read and written there",
    "model.tags": "tags of clusters that give meaning to those of nodes and instances",
    "model.cluster": "where tags are kept",
    "model.instance": "where tags are kept",
    "settings": "settings may be tags",
    "engine": "asks whether any setting is a tag, to leave `settings` unloaded",
    "transition.step": "adding and removing a tag are steps",
    "ganeti.opcodes": "opcodes that add and remove tags",
    "ganeti.jobs": "entries of a transition that add and remove tags",
    "ganeti.commands": "commands that add and remove tags",
    "planners.reboot.options": "an option names tags of nodes",
    "documents.overview": "lists the tags of the cluster, of groups and of instances",
    "documents.lists": "a column of that name",
    "documents.cluster_facts": "lists the tags of nodes and of instances for pages",
    "placement.several.joint": "instances with equal tags are interchangeable",
    "placement.several.optimal": "instances with equal tags are interchangeable",
}
"""Module or package -> why it may read tags."""


def _reads() -> Iterator[tuple[str, int]]:
    """Yield module and line of every attribute ``tags`` in the package."""
    for module, node in nodes():
        if isinstance(node, ast.Attribute) and node.attr == "tags":
            yield module.removeprefix("iallocator."), node.lineno


def _reader(module: str) -> str:
    """Return the entry of the table that applies to `module`; "" if there is none."""
    package = module.partition(".")[0]
    return next((name for name in (module, package) if name in MAY_READ), "")


def test_tags_are_read_only_where_the_table_permits() -> None:
    """Only modules in the table read tags; handlers, planners and strategies do not."""
    wrong = [f"{module}:{line} reads tags" for module, line in _reads() if not _reader(module)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("entry", MAY_READ)
def test_every_reader_in_the_table_reads_tags(entry: str) -> None:
    """Every module in the table of readers reads tags."""
    assert entry in {_reader(module) for module, _ in _reads()}


COMPARED = {*TEMPLATES} - {"file"}
"""Names of disk templates that occur as no other words in the program."""

CONSTANTS = {"DISKLESS", "DRBD", "EXT", "PLAIN"}
"""The constants of `iallocator.model.templates` for templates of new instances."""


def _asks_for_a_template(node: ast.AST) -> bool:
    """Return whether `node` compares the name of a disk template, or lists such names."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        equality = isinstance(node.ops[0], ast.Eq | ast.NotEq)
        return any(
            (isinstance(one, ast.Constant) and one.value in COMPARED)
            or (equality and isinstance(one, ast.Name) and one.id in CONSTANTS)
            for one in operands
        )
    if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
        parts = node.keys if isinstance(node, ast.Dict) else node.elts
        named = [one for one in parts if isinstance(one, ast.Constant) and one.value in TEMPLATES]
        return len(named) > 1
    return False


def test_names_of_disk_templates_are_compared_only_in_their_table() -> None:
    """Only the table of disk templates compares names of templates; others read its columns."""
    assert [
        f"{module}:{node.lineno}"
        for module, node in nodes()
        if module != "iallocator.model.templates"
        and _asks_for_a_template(node)
        and isinstance(node, ast.expr)
    ] == []


@pytest.mark.parametrize(
    "code", ["kind == 'drbd'", "kind in ('x', 'y') or kind != DISKLESS", "('rbd', 'ext')"]
)
def test_compared_name_of_a_disk_template_is_found(code: str) -> None:
    """The search for compared names of disk templates finds one in each example of code."""
    assert any(map(_asks_for_a_template, ast.walk(ast.parse(code))))
