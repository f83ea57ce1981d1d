"""The differences between this program and those of htools: a named flag for each.

The code that differs reads its flag. `Behaviour` has the values of this program. A program of
htools has a subclass with other values; `behaviour_of` chooses one by the value of ``--compat``.
"""

from __future__ import annotations

__all__ = ["IN_ORDER", "OURS", "Behaviour", "behaviour_of"]


class Behaviour:
    """Flags for how requests are answered and plans made, with the values of this program."""

    # Which facts of a document and its tags are used

    orders_by_name = True
    """Ties go to the first by name; otherwise to the last in the order of the document."""

    reverses_order = True
    """Unless ordered by name, nodes and instances are in the reversed order of the document."""

    reads_cpu_speed = True
    """The ``cpu_speed`` of a node is used."""

    reads_auto_balance = True
    """The ``auto_balance`` of an instance is used."""

    reads_dead_nodes = True
    """Amounts of nodes that are offline or not vm_capable are used."""

    reads_cpu_speed_by_rapi = True
    """The ``cpu_speed`` of a node of a running cluster is used, also if RAPI reports it."""

    asks_offline_daemons = False
    """The monitoring daemon of an offline node must answer, too."""

    asks_all_daemons = False
    """After one monitoring daemon failed to answer, the others are asked, too."""

    looks_names_up = True
    """The nodes that new instances are restricted to may have short names, and must exist."""

    rejects_inconsistent_documents = True
    """An unknown version of the protocol, or two groups with one name, are errors."""

    reads_pools = True
    """The storage pools of nodes and instances are used."""

    counts_spindles_anywhere = False
    """Disks on shared storage take spindles of a node with exclusive storage, too."""

    reads_groups_of_batch = True
    """The group and the nodes that an instance of a batch requires are used."""

    restricts_new_only = True
    """The nodes that new instances are restricted to do not restrict a change of group."""

    reads_settings = True
    """Settings in requests and in tags are used."""

    warns_in_info = True
    """Warnings are in the answer, too, not only on stderr."""

    prints_as_htools = False
    """Text has all decimals of scores, hbal's notation of moves, and every row of long lists."""

    reports_inconsistent_nodes = True
    """``check`` reports nodes with inconsistent data."""

    tells_nearest = True
    """A rejection names the node that is closest to acceptable, and what it lacks."""

    knows_affinity = True
    """Tags with affinity constraints are used."""

    counts_new_statistics = True
    """Statistics that htools does not have count in the score."""

    passes_n1_at_equality = False
    """A node that nothing has changed passes N+1 if its free memory equals what it reserves."""

    decides_by_rounding = False
    """Of equal scores, the one wins that is lower after rounding, as statistics are added up."""

    recreates_in_place = True
    """If the disks of an instance are created again, its present resources are free for it, in its
    group."""

    policy_reason = "FailPolicy"
    """The reason that counts a rejection by the instance policy; "": the resource that is short."""

    # Which candidates there are

    prefers_last_group = False
    """Of equal groups the last one is taken."""

    names_unallocable = True
    """An unallocable group is reported as the reason."""

    ranks_losses_per_group = True
    """Lost allocations rank each dedicated group, not only if all groups are dedicated."""

    keeps_batch_in_first_group = False
    """If lost allocations decide, a batch stays in the group of its first instance."""

    tries_other_groups = True
    """If the best group cannot be used step by step, or the own group is full, others are tried."""

    scores_dead_clusters = True
    """If no node is online, the instances on the others have a score all the same."""

    offers_offline_secondaries = False
    """An allocate-secondary does not check whether a node is online."""

    fails_over_to_offline = False
    """A failover does not check whether the secondary is online."""

    copies_from_offline = False
    """A new secondary does not require a primary that is online to copy the disks from."""

    # Which limits apply to candidates

    spares_soft_limits_of_secondaries = True
    """Ignoring soft limits applies to the secondary of a new instance, too."""

    spares_soft_limits_after_group = True
    """Ignoring soft limits applies to moves into the chosen group, too."""

    holds_moves_to_n1 = True
    """Optional moves must keep global N+1."""

    tests_primary_again = False
    """A new secondary is also rejected if the primary violates a limit of every move."""

    checks_n1_where_movers_were = False
    """``strict`` N+1 counts a moving instance on its old nodes when its new node fails."""

    checks_n1_by_namesake = False
    """``strict`` N+1 takes another instance of a named group for the new one, by its number."""

    checks_n1_by_old_template = False
    """N+1 counts an instance that gets a secondary with its old template."""

    asks_n1_by_losses = True
    """N+1 is checked if lost allocations rank."""

    # How planners work

    plans_by_document = False
    """Of equal nodes and instances, a plan takes the first of the document."""

    balances_by_swaps = True
    """Balancing tries swaps and chains of moves if no single move lowers the score."""

    plans_for_diskless = True
    """Plans may move diskless instances, and capacity counts them as diskless."""

    plans_keep_n1 = True
    """Plans check global N+1, even if no mode was chosen."""

    frees_online_nodes = True
    """A node is online while squeezing empties it; otherwise it counts as offline."""

    squeezes_by_balancing = False
    """One balancing run decides whether nodes can be freed, or suffice, in all groups at once."""

    squeezes_further = True
    """A squeeze plan continues until another run would change nothing."""

    avoids_needless_copies = True
    """Several moves of an instance become fewer ones with an equal result."""

    recalls_newest_first = False
    """For capacity, the newest instances are the first to leave a node that fails."""

    counts_sizes_as_attempts = False
    """With ``--max-length``, each size that capacity tries counts the instances placed already."""

    states_bounds = True
    """A plan states a bound of the best possible result."""

    runs_in_job_sets = False
    """The commands of a plan are in sets of jobs that use different nodes."""

    # The answer

    fails_batch_whole = False
    """One instance that cannot be placed fails its whole batch."""

    migrates_stopped = False
    """Stopped instances are migrated, too; Ganeti then fails them over."""

    tells_transition = True
    """An answer has the order in which its steps are safe."""

    searches = True
    """Exact search may follow if greedy placement has failed."""

    n1_mode = "no-worse"
    """The mode of N+1 if none was chosen."""


OURS = Behaviour()


class _InOrder(Behaviour):
    """The behaviour of this program, but objects keep the order of the document."""

    orders_by_name = False


IN_ORDER = _InOrder()
"""For writing a cluster in the order in which it was read."""


def behaviour_of(compat: str) -> Behaviour:
    """Return the behaviour for a value of ``--compat``; "": our own.

    A program of htools, such as ``hail``, may be followed by the release: ``hail-3.1``. The answers
    and plans of all releases are equal; `iallocator.compat.releases` has what differs.
    """
    if not compat:
        return OURS
    from importlib import import_module

    program = compat.partition("-")[0]
    behaviour: Behaviour = import_module(f"iallocator.compat.{program}").BEHAVIOUR
    return behaviour
