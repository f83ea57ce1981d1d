"""Measure hail's answers to the generated documents, to keep the documents varied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from .documents import document
from .fairness import incomparable
from .oracle import Answer, hail


def measure(seeds: Iterable[int], kind: str, *options: str) -> str:
    """Return a table with the share of successes, reasons of failures, and exclusions."""
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for seed in seeds:
        request = document(seed, kind)
        answer = hail(request, *options)
        outcomes[outcome(answer)] += 1
        reasons.update(rejections(answer))
        left_out.update(filter(None, [incomparable(request)]))
    total = sum(outcomes.values())
    lines = [f"{kind}: {total} documents"]
    lines += [f"  {count / total:6.1%} {name}" for name, count in outcomes.most_common()]
    lines += ["  where a refusal rests on:"]
    lines += [f"  {count:6} {name}" for name, count in reasons.most_common()]
    lines += [f"  {count:6} left out: {why}" for why, count in left_out.most_common()]
    return "\n".join(lines)


def outcome(answer: Answer) -> str:
    """Return a name for the result of one request."""
    if answer.status:
        return f"exit {answer.status}: {answer.stderr.strip()[:80]}"
    if not answer.success:
        return "no solution"
    if answer.counts and answer.counts[0]:
        return "some instances failed" if answer.counts[1] else "all instances failed"
    return "success"


def rejections(answer: Answer) -> set[str]:
    """Return the reasons of a rejection: names of limits, errors, or messages."""
    if answer.success and answer.counts:
        return {reason for entry in answer.result[1] for reason in _reasons(entry)}
    if answer.success:
        return set()
    return _reasons(["", answer.info])


def _reasons(failed: list[str]) -> set[str]:
    """Return the reasons in a message, or the message without names of objects."""
    _, message = failed
    counted = set(re.findall(r"Fail[A-Z]\w+", message))
    return counted or {re.sub(r"\b(Group |group |instance |node )\w+.*", r"\1...", message)[:70]}
