"""Test that the work for rules with different tags grows with the members, not the pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.constraints import rule_violations
from tests import builders

MEMBERS = 60

TAGS = {
    "prices": "iallocator:separate:should:web:{}",
    "domains": "iallocator:separate:must:web:domain{}",
    "together": "iallocator:colocate:should:web:{}",
}


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS)
@pytest.mark.parametrize("command", [("check",), ("check", "--no-simulation"), ("balance",)])
def test_members_with_different_requirements_need_a_few_sums_each(
    command: tuple[str, ...],
    tag: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sum of equal members is computed once, so that no loop visits each of them."""
    made = 0
    plain = rule_violations._Term.add

    def counted(self: rule_violations._Term, *arguments: object) -> None:
        nonlocal made
        made += 1
        plain(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rule_violations._Term, "add", counted)
    instances = {
        f"inst{k}": builders.rbd(f"node{k % 3 + 1}", memory=64, tags=[tag.format(k + 1)])
        for k in range(MEMBERS)
    }
    path = tmp_path / "cluster.json"
    path.write_bytes(builders.as_bytes(builders.cluster(4, memory=65536, instances=instances)))
    assert main([*command, str(path)]) in (0, 1)
    assert capsys.readouterr().out
    assert made < 40 * MEMBERS
