"""What ``--compat`` changes: each deviation has a name, and whoever deviates asks for it.

`Behaviour` is our own. A program that we can answer like has a behaviour of its own, which says
in what it differs; `behaviour_of` chooses by the value of the option.
"""

from __future__ import annotations

__all__ = ["IN_ORDER", "OURS", "Behaviour", "behaviour_of"]


class Behaviour:
    """How requests are answered, and plans made, where programs differ; this is our own way."""

    # What of a document and its tags counts

    orders_by_name = True
    """Ties go to the first by name; else to the last in the order of the document."""

    reads_cpu_speed = True
    """The ``cpu_speed`` of a node counts."""

    reads_auto_balance = True
    """Whether an instance is balanced automatically counts."""

    reads_dead_nodes = True
    """What is told of nodes counts that are offline, or not for virtual machines."""

    reads_cpu_speed_by_rapi = True
    """The ``cpu_speed`` of a node of a running cluster counts, whoever tells it."""

    asks_offline_daemons = False
    """The monitoring daemon of an offline node must answer, too."""

    looks_names_up = True
    """Nodes that new instances are restricted to may have short names, and must be there."""

    doubts_documents = True
    """A version of the protocol that nobody knows, or two groups of one name, are errors."""

    reads_pools = True
    """What nodes and instances say of storage pools counts."""

    counts_spindles_anywhere = False
    """Disks on shared storage take spindles of a node with exclusive storage, too."""

    reads_groups_of_batch = True
    """The group and the nodes that an instance of a batch asks for count."""

    reads_settings = True
    """Settings in requests and in tags count."""

    warns_in_info = True
    """What a person is warned of stands in the answer, too, not only on stderr."""

    tells_nearest = True
    """A rejection says which node came closest, and what it lacks."""

    knows_affinity = True
    """Tags that bind instances to each other count."""

    decides_by_rounding = False
    """Of equal scores the one wins that rounding leaves lower, as statistics are added up."""

    recreates_in_place = True
    """What an instance uses whose disks are created anew is free for it, in its group."""

    policy_reason = "FailPolicy"
    """What a rejection by the instance policy is counted as; "": as a lack of what it is about."""

    # Who is asked

    prefers_last_group = False
    """Of groups that are equal the last is taken."""

    names_unallocable = True
    """A group that is unallocable says that this is the reason."""

    ranks_losses_per_group = True
    """Lost allocations rank each dedicated group, not only if all groups are dedicated."""

    keeps_batch_in_first_group = False
    """Where lost allocations decide, a batch stays in the group of its first instance."""

    tries_other_groups = True
    """Where the best group cannot be reached step by step, or the own group is full."""

    scores_dead_clusters = True
    """Where no node is online, what is on the others is a score all the same."""

    offers_offline_secondaries = False
    """An allocate-secondary does not ask whether a node is online."""

    fails_over_to_offline = False
    """A failover does not ask whether the secondary is online."""

    copies_from_offline = False
    """A new secondary does not ask whether the primary is there to copy the disks from."""

    # What candidates are held to

    spares_soft_limits_of_secondaries = True
    """Ignoring soft limits is for the secondary of a new instance, too."""

    spares_soft_limits_after_group = True
    """Ignoring soft limits is for moves into the group that was chosen, too."""

    holds_moves_to_n1 = True
    """Moves that nobody asked for must keep global N+1."""

    tests_primary_again = False
    """A new secondary is rejected, too, if the primary breaks a limit that no move may break."""

    judges_where_movers_were = False
    """``strict`` N+1 takes an instance that moves for where it was when its new node fails."""

    judges_by_namesake = False
    """``strict`` N+1 takes another instance of a named group for the new one, by its number."""

    judges_by_old_template = False
    """N+1 takes an instance that gets a secondary for one of its old template."""

    asks_n1_by_losses = True
    """N+1 is asked where lost allocations rank."""

    # How planners go about it

    plans_by_document = False
    """Of nodes and instances that are level a plan takes the first of the document."""

    plans_for_diskless = True
    """Plans may move diskless instances, and capacity takes them for what they are."""

    plans_keep_n1 = True
    """Plans are held to global N+1, even if nobody asks for a mode."""

    frees_online_nodes = True
    """A node is online while squeezing frees it; else it is taken for dead."""

    squeezes_further = True
    """A squeeze plan continues from its own end until another run would do nothing."""

    avoids_needless_copies = True
    """Several moves of an instance become fewer ones if the end is the same."""

    recalls_newest_first = False
    """To capacity the newest instances are the first to leave a node that fails."""

    counts_sizes_as_attempts = False
    """With ``--max-length``, each size that capacity tries uses up what is placed already."""

    runs_in_job_sets = False
    """The commands of a plan stand in sets of jobs that touch different nodes."""

    # What is answered

    fails_batch_whole = False
    """One instance without a place fails its whole batch."""

    migrates_stopped = False
    """Stopped instances are migrated, too; Ganeti fails them over then."""

    tells_transition = True
    """An answer says in which order its steps are safe."""

    searches = True
    """Exact search may follow where placing greedily failed."""

    n1_mode = "no-worse"
    """How N+1 is judged if nothing else is asked for."""


OURS = Behaviour()


class _InOrder(Behaviour):
    """Ours, but for the order, which is that of the document."""

    orders_by_name = False


IN_ORDER = _InOrder()
"""For those who write a cluster down as it was told."""


def behaviour_of(compat: str) -> Behaviour:
    """What ``--compat`` with this value asks for; "" for our own."""
    if not compat:
        return OURS
    from importlib import import_module

    behaviour: Behaviour = import_module(f"iallocator.compat.{compat}").BEHAVIOUR
    return behaviour
