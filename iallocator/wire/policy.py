"""Raw instance policies to policies, of a cluster and of its groups."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.model.policy import (
    ALL_TEMPLATES,
    DEFAULT_MAX,
    DEFAULT_MIN,
    DEFAULT_SPINDLE_RATIO,
    DEFAULT_STD,
    DEFAULT_VCPU_RATIO,
    Interval,
    Policy,
    Spec,
)
from iallocator.wire.fields import absent, child, factor, integer, objects, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.wire.fields import Raw

__all__ = ["cluster_policy", "read_policy"]


def cluster_policy(document: Raw) -> Policy:
    """The policy of the whole cluster."""
    return read_policy(document, "ipolicy", Policy(), partial=True)


def read_policy(raw: Raw, key: str, default: Policy, partial: bool = False) -> Policy:
    """The policy in the member `key`; sizes of a `partial` one are completed with the default."""
    if raw.get(key) is None:
        return default
    policy = child(raw, key)
    try:
        return Policy(
            _intervals(policy, partial),
            _spec(policy, "std", DEFAULT_STD, partial),
            strings(policy, "disk-templates", list(ALL_TEMPLATES)),
            factor(policy, "vcpu-ratio", DEFAULT_VCPU_RATIO),
            factor(policy, "spindle-ratio", DEFAULT_SPINDLE_RATIO),
        )
    except RequestError as error:
        raise error.below(key) from None


def _intervals(policy: Raw, partial: bool) -> list[Interval]:
    if "minmax" not in policy:
        low = _spec(policy, "min", DEFAULT_MIN, partial)
        return [Interval(low, _spec(policy, "max", DEFAULT_MAX, partial))]
    intervals = []
    for position, pair in enumerate(objects(policy, "minmax")):
        try:
            low, high = (DEFAULT_MIN, DEFAULT_MAX) if partial else (absent, absent)
            low = _spec(pair, "min", low, partial)
            intervals.append(Interval(low, _spec(pair, "max", high, partial)))
        except RequestError as error:
            raise error.below(f"minmax/{position}") from None
    if not intervals:
        raise RequestError("minmax", "expected at least one interval, got none")
    return intervals


def _spec(raw: Raw, key: str, default: Any, partial: bool = False) -> Spec:
    if key not in raw and default is not absent:
        return default  # type: ignore[no-any-return]
    spec = child(raw, key)
    base = DEFAULT_STD if default is absent else default
    try:
        return Spec(
            integer(spec, "memory-size", base.memory if partial else absent),
            integer(spec, "cpu-count", base.cpus if partial else absent),
            integer(spec, "disk-size", base.disk if partial else absent),
            integer(spec, "disk-count", base.disks if partial else absent),
            integer(spec, "nic-count", base.nics),
            integer(spec, "spindle-use", base.spindles),
        )
    except RequestError as error:
        raise error.below(key) from None
