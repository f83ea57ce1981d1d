"""The differences between this program and the programs of htools: a named flag for each.

The code that differs reads its flag. `Behaviour` has the values of this program. A program of
htools has a subclass with other values; `behaviour_of` chooses the class by the value of
``--compat``.
"""

from __future__ import annotations

__all__ = ["IN_ORDER", "OURS", "Behaviour", "behaviour_of"]


class Behaviour:
    """How requests are answered and plans are made, with the values of this program.

    The docstring of a flag states what happens if the flag is true.
    """

    # Which facts of a document and its tags are used

    orders_by_name = True
    """Ties go to the first object by name, instead of the last object in the document."""

    reverses_order = True
    """If `orders_by_name` is false, nodes and instances have the reversed order of the document."""

    reads_cpu_speed = True
    """The field ``cpu_speed`` of nodes is used."""

    reads_auto_balance = True
    """The field ``auto_balance`` of instances is used."""

    reads_dead_nodes = True
    """The reported amounts of nodes that are offline or not vm_capable are used."""

    reads_cpu_speed_by_rapi = True
    """The field ``cpu_speed`` of nodes is also used if RAPI reports it."""

    asks_offline_daemons = False
    """The monitoring daemon of an offline node must answer, too."""

    asks_all_daemons = False
    """After one monitoring daemon failed to answer, the others are asked, too."""

    looks_names_up = True
    """The list of nodes for new instances may have short names; unknown names are errors."""

    rejects_inconsistent_documents = True
    """An unknown version of the protocol, or two groups with one name, are errors."""

    reads_pools = True
    """The storage pools of nodes and instances are used."""

    counts_spindles_anywhere = False
    """Disks on shared storage also use spindles of a node with exclusive storage."""

    reads_groups_of_batch = True
    """The group and the nodes that an instance of a batch requires are used."""

    restricts_new_only = True
    """The list of nodes for new instances does not restrict the requests that change the group."""

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

    simulates_free_spindles = True
    """The spindles of simulated nodes with exclusive storage are free."""

    lists_rejections = False
    """If an instance cannot be moved, the reason of each node is listed, as hail does."""

    knows_affinity = True
    """Tags with affinity constraints are used."""

    counts_new_statistics = True
    """The score includes statistics that htools do not have."""

    accepts_blank_text = False
    """A text file of blank lines is an empty cluster, not an error."""

    passes_n1_at_equality = False
    """A node that no move has changed passes N+1 if its free memory equals its reserve."""

    decides_by_rounding = False
    """Equal scores are compared with the rounding errors that hail makes; the lower one wins."""

    recreates_in_place = True
    """If the disks of an instance are created again, the instance's own resources count as free."""

    policy_reason = "FailPolicy"
    """The failure reason if the instance policy rejects; "": the reason of the violated bound."""

    # Which candidates there are

    prefers_last_group = False
    """Of several groups with equal scores, the last one is chosen."""

    names_unallocable = True
    """If a group is unallocable, the answer reports this as the reason."""

    ranks_losses_per_group = True
    """Lost allocations rank the nodes of a dedicated group even if not all groups are dedicated."""

    keeps_batch_in_first_group = False
    """If lost allocations decide, a batch is placed in the group of its first instance."""

    tries_other_groups = True
    """Other groups are tried if the best group fails, or if an instance's own group is full."""

    scores_dead_clusters = True
    """If no node is online, a score is computed from the instances all the same."""

    offers_offline_secondaries = False
    """The request allocate-secondary does not check whether a node is online."""

    fails_over_to_offline = False
    """A failover does not check whether the secondary is online."""

    copies_from_offline = False
    """A new secondary does not require a primary that is online to copy the disks from."""

    # Which limits apply to candidates

    spares_soft_limits_of_secondaries = True
    """``--ignore-soft-errors`` also applies to the secondary of a new instance."""

    spares_soft_limits_after_group = True
    """``--ignore-soft-errors`` also applies to moves into the chosen group."""

    holds_moves_to_n1 = True
    """Optional moves must keep global N+1."""

    tests_primary_again = False
    """All new secondaries are rejected if the unchanged primary violates a forced limit."""

    checks_n1_where_movers_were = False
    """``strict`` N+1 counts a moving instance on its old nodes when its new node fails."""

    checks_n1_by_namesake = False
    """``strict`` N+1 confuses a new instance in a named group with an existing one, as hail
    does."""

    checks_n1_by_old_template = False
    """N+1 treats an instance that gets a secondary as if it kept its old disk template."""

    asks_n1_by_losses = True
    """N+1 is checked if lost allocations rank the nodes."""

    # How planners work

    plans_by_document = False
    """Of several equal nodes or instances, a plan uses the first one in the document."""

    balances_by_swaps = True
    """Balancing tries swaps and chains of moves if no single move lowers the score."""

    plans_for_diskless = True
    """Plans may move diskless instances; new diskless instances need no disk in `capacity`."""

    plans_keep_n1 = True
    """Plans check global N+1, even if no mode was chosen."""

    frees_online_nodes = True
    """A node counts as online while squeezing empties it, instead of offline."""

    squeezes_by_balancing = False
    """Squeezing tests each choice of nodes by one balancing of all groups, as hsqueeze does."""

    squeezes_further = True
    """A plan of squeezing continues until a further run would change nothing."""

    avoids_needless_copies = True
    """Several moves of one instance are replaced by fewer moves with an equal result."""

    recalls_newest_first = False
    """In the N+1 check of capacity, the newest instances of a failed node are restarted first."""

    checks_n1_after_batches = False
    """Filling checks N+1 after a batch of equal instances, and one by one only if that fails."""

    counts_sizes_as_attempts = False
    """With ``--max-length``, each tried size lowers the limit by the number of placed instances."""

    states_bounds = True
    """A plan contains a bound of the best possible result."""

    runs_in_job_sets = False
    """The commands of a plan are divided into sets of jobs that use different nodes."""

    # The answer

    fails_batch_whole = False
    """One instance that cannot be placed fails its whole batch."""

    migrates_stopped = False
    """Stopped instances get the opcode for migration, too; Ganeti then fails them over."""

    tells_transition = True
    """An answer contains an order in which its steps are safe."""

    searches = True
    """An exact search may follow if greedy placement has failed."""

    n1_mode = "no-worse"
    """The mode of N+1 if none was chosen."""


OURS = Behaviour()


class _InOrder(Behaviour):
    """The behaviour of this program, but with objects in the order of the document."""

    orders_by_name = False


IN_ORDER = _InOrder()
"""The behaviour for writing a cluster in the order in which it was read."""


def behaviour_of(compat: str) -> Behaviour:
    """Return the behaviour for a value of ``--compat``; "" means that of this program.

    A program of htools, such as ``hail``, may be followed by the release: ``hail-3.1``. The answers
    and plans of all releases are equal; `iallocator.compat.releases` has the differences.
    """
    if not compat:
        return OURS
    program = compat.partition("-")[0]
    # importlib would load further modules of Python
    module = __import__(f"iallocator.compat.{program}", fromlist=("BEHAVIOUR",))
    behaviour: Behaviour = module.BEHAVIOUR
    return behaviour
