"""The questions that are asked through LUXI."""

from __future__ import annotations

from typing import Any

from iallocator.live.errors import LiveError
from iallocator.live.luxi import LuxiClient
from iallocator.sources.live.answers import Answers, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.deadline import Deadline

__all__ = ["ask_luxi"]

FIELDS = {
    "group": "uuid name alloc_policy ipolicy tags diskparams",
    "node": (
        "name mtotal mnode mfree dtotal dfree ctotal cnos offline drained vm_capable group.uuid "
        "tags sptotal spfree pip sip master_candidate master_capable "
        "ndp/spindle_count ndp/exclusive_storage ndp/cpu_speed ndp/oob_program"
    ),
    "instance": (
        "name disk_usage be/memory be/maxmem be/vcpus be/auto_balance be/spindle_use status "
        "admin_state pnode snodes tags disk_template disk.sizes disk.spindles nic.networks "
        "nic.macs nic.ips nic.modes nic.links forthcoming hypervisor os"
    ),
    "network": "uuid name group_list",
}
"""What is asked about -> the fields that are asked for."""

NORMAL = 0
"""Status of a field that has a value."""


def ask_luxi(path: str, deadline: Deadline, limit: int) -> Answers:
    """What the daemons behind the socket at `path` say; "" means the usual one.

    All is said before `deadline`, and no answer has more than `limit` bytes.

    Raises
    ------
    LiveError
        If they do not answer, or something else.
    """
    with LuxiClient(path, limit) as client:
        info = client.call("QueryClusterInfo", (), deadline)
        if not isinstance(info, dict):
            raise LiveError(f"{client.path}: QueryClusterInfo", "expected an object")
        groups, nodes, instances, networks = (
            _records(client, what, deadline) for what in ("group", "node", "instance", "network")
        )
        return Answers(client.path, info, groups, nodes, instances, networks)


def _records(client: LuxiClient, what: str, deadline: Deadline) -> list[Record]:
    fields = FIELDS[what].split()
    result = client.call("Query", [what, fields, None], deadline)
    try:
        return [_record(fields, row) for row in result["data"]]
    except (TypeError, KeyError, ValueError):
        problem = f"expected rows of {len(fields)} fields, each a status and a value"
        raise LiveError(f"{client.path}: Query {what}", problem) from None


def _record(fields: list[str], row: list[list[Any]]) -> Record:
    return {
        field: value if status == NORMAL else None
        for field, (status, value) in zip(fields, row, strict=True)
    }
