"""Plain words for what answers name in short."""

from __future__ import annotations

from iallocator.limits.node import REASONS as LIMITS

__all__ = ["GAINS", "REASONS", "STATISTICS"]

STATISTICS = {
    "free_mem": "free memory differs between nodes",
    "free_disk": "free disk differs between nodes",
    "n1_cnt": "instances on nodes that fail N+1",
    "reserved_mem": "memory reserved for failovers differs between nodes",
    "offline_all": "instances on nodes that are not online",
    "offline_pri": "primaries on nodes that are not online",
    "vcpu_ratio": "virtual cpus per cpu differ between nodes",
    "cpu_load": "cpu load differs between nodes",
    "mem_load": "memory load differs between nodes",
    "disk_load": "disk load differs between nodes",
    "net_load": "network load differs between nodes",
    "pri_tags": "primaries with the same exclusion tag on one node",
    "spindles": "spindles in use differ between nodes",
    "free_mem_forth": "free memory differs, forthcoming instances counted",
    "free_disk_forth": "free disk differs, forthcoming instances counted",
    "vcpu_ratio_forth": "virtual cpus per cpu differ, forthcoming instances counted",
    "spindles_forth": "spindles in use differ, forthcoming instances counted",
    "location": "failure domains shared with the secondary, desired locations missed",
    "location_exclusion": "same exclusion tag twice in one failure domain",
    "reserved_mem_total": "memory reserved for failovers in all",
    "penalty": "soft constraints are violated",
}
"""What makes each statistic larger, and so the score worse."""

GAINS = {
    "free_mem": "free memory more even",
    "free_disk": "free disk more even",
    "n1_cnt": "fewer instances on nodes that fail N+1",
    "reserved_mem": "memory reserved for failovers more even",
    "offline_all": "fewer instances on nodes that are not online",
    "offline_pri": "fewer primaries on nodes that are not online",
    "vcpu_ratio": "virtual cpus more even",
    "cpu_load": "cpu load more even",
    "mem_load": "memory load more even",
    "disk_load": "disk load more even",
    "net_load": "network load more even",
    "pri_tags": "fewer exclusion tags twice on one node",
    "spindles": "spindles more even",
    "free_mem_forth": "free memory more even once forthcoming instances exist",
    "free_disk_forth": "free disk more even once forthcoming instances exist",
    "vcpu_ratio_forth": "virtual cpus more even once forthcoming instances exist",
    "spindles_forth": "spindles more even once forthcoming instances exist",
    "location": "fewer shared failure domains",
    "location_exclusion": "fewer exclusion tags twice in one failure domain",
    "reserved_mem_total": "less memory reserved for failovers",
}
"""What is better where a statistic is smaller."""

REASONS = LIMITS | {"FailStrategy": "refused by the strategy"}
"""What each reason of rejection is about."""
