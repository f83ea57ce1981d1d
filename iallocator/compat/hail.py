"""The behaviour of hail, Ganeti's own allocator, and of htools' planners: ``--compat hail``."""

from __future__ import annotations

from iallocator.compat import Behaviour

__all__ = ["BEHAVIOUR", "HAIL_IN_ORDER", "HailBehaviour"]


class HailBehaviour(Behaviour):
    """The behaviour of hail, hbal, hspace, hsqueeze and hcheck 3.0."""

    orders_by_name = False
    reads_cpu_speed = False
    reads_dead_nodes = False
    reads_cpu_speed_by_rapi = False
    asks_offline_daemons = True
    asks_all_daemons = True
    reads_auto_balance = False
    looks_names_up = False
    rejects_inconsistent_documents = False
    reads_pools = False
    counts_spindles_anywhere = True
    reads_groups_of_batch = False
    restricts_new_only = False
    reads_settings = False
    warns_in_info = False
    prints_as_htools = True
    reports_inconsistent_nodes = False
    tells_nearest = False
    simulates_free_spindles = False
    lists_rejections = True
    knows_affinity = False
    counts_new_statistics = False
    accepts_blank_text = True
    passes_n1_at_equality = True
    decides_by_rounding = True
    recreates_in_place = False
    policy_reason = ""
    prefers_last_group = True
    names_unallocable = False
    ranks_losses_per_group = False
    keeps_batch_in_first_group = True
    tries_other_groups = False
    scores_dead_clusters = False
    offers_offline_secondaries = True
    fails_over_to_offline = True
    copies_from_offline = True
    spares_soft_limits_of_secondaries = False
    spares_soft_limits_after_group = False
    holds_moves_to_n1 = False
    tests_primary_again = True
    checks_n1_where_movers_were = True
    checks_n1_by_namesake = True
    checks_n1_by_old_template = True
    asks_n1_by_losses = False
    plans_by_document = True
    balances_by_swaps = False
    plans_for_diskless = False
    plans_keep_n1 = False
    frees_online_nodes = False
    squeezes_by_balancing = True
    squeezes_further = False
    avoids_needless_copies = False
    recalls_newest_first = True
    checks_n1_after_batches = True
    counts_sizes_as_attempts = True
    runs_in_job_sets = True
    fails_batch_whole = True
    migrates_stopped = True
    tells_transition = False
    searches = False
    states_bounds = False
    n1_mode = "strict"


BEHAVIOUR = HailBehaviour()


class _InOrder(HailBehaviour):
    """The behaviour of hroller, which uses nodes in the order of the document."""

    reverses_order = False


HAIL_IN_ORDER = _InOrder()
