"""Test the strategy ``affinity`` rule by rule, by its answers to requests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from iallocator.errors import RequestError, UsageError
from tests.architecture.test_startup import SLOW, loaded
from tests.builders import Json, allocate_rbd, as_bytes, cluster, rbd
from tests.command import respond

from .plain_affinity import LEVELS


def ask(document: Json, *words: str) -> Json:
    """Return the response to `document` with the strategy ``affinity``."""
    given = ["--strategy=affinity", "--n1=off", *words]
    return respond(document, *given)


def chosen(document: Json, *words: str) -> list[str]:
    """Return the nodes of the answer with the strategy ``affinity``."""
    nodes: list[str] = ask(document, *words)["result"]
    return nodes


def rooms(count: int, **changes: Json) -> Json:
    """Return a cluster in which the node with number N has the key room with value N."""
    tags: dict[str, Json] = {
        f"node{number}": {"tags": [f"iallocator:key:room:{number}"]}
        for number in range(1, count + 1)
    }
    return cluster(count, memory=65536, cpus=64, changes=tags | changes)


def room(value: float, level: str | None = None, **members: Any) -> Json:
    """Return a system key named room with `value`, by default with the weight 100."""
    key = {"class": "system", "name": "room", "value": value, "weight": 100, **members}
    return key if level is None else {"level": level, **key}


def new(document: Json, *tags: str, **members: Any) -> Json:
    """Return a request for a new instance on shared storage, with `tags`."""
    return allocate_rbd(document, tags=list(tags), **members)


def explained(document: Json, *words: str) -> str:
    """Return the output of ``explain`` with the strategy ``affinity``."""
    command = [sys.executable, "-m", "iallocator", "explain", "--strategy=affinity", *words, "-"]
    done = subprocess.run(command, input=as_bytes(document), capture_output=True, check=True)
    return done.stdout.decode()


# levels


@pytest.mark.parametrize(("upper", "lower"), list(pairwise(LEVELS)))
def test_key_set_at_two_levels_counts_as_at_the_lower(upper: str, lower: str) -> None:
    """If a key is set at two levels, the key of the lower level applies, in any order."""
    for keys in ([room(3, upper), room(2, lower)], [room(2, lower), room(3, upper)]):
        assert chosen(new(rooms(3), placement_keys=keys)) == ["node2"]


def test_key_at_one_level_twice_counts_as_set_last() -> None:
    """If a key is set twice at one level, the later one applies.

    A key in a list overrides one in a tag; a key of the request overrides one of the document.
    """
    document = rooms(4)
    twice = [room(2), room(3)]
    assert chosen(new(document, placement_keys=twice)) == ["node3"]
    assert chosen(new(document, placement_keys=twice[::-1])) == ["node2"]
    tag = "iallocator:syskey:room:4:100"
    assert chosen(new(document, tag)) == ["node4"]
    assert chosen(new(document, tag, placement_keys=[room(2)])) == ["node2"]
    top = {**document, "placement_keys": [room(3, "server")]}
    assert chosen(new(top, tag)) == ["node3"]
    assert chosen(new(top, tag, placement_keys=[room(2)])) == ["node2"]


def test_key_without_level_has_the_level_of_its_object() -> None:
    """A key without a level has the level of the object where it is set."""
    document = {**rooms(3), "placement_keys": [room(3)]}
    assert chosen(new(document)) == ["node3"]
    assert chosen(new(document, placement_keys=[room(2, "billing entity")])) == ["node2"]
    below = [room(2), room(1, "server product offer")]
    assert chosen(new(document, placement_keys=below)) == ["node2"]


def test_keys_of_different_classes_with_equal_names_are_distinct() -> None:
    """Keys of different classes with equal names are different keys.

    A customer key does not hide a system key, and does not match a key of the node.
    """
    document = rooms(3)
    keys = [room(2, "cluster"), {**room(3, "server"), "class": "customer"}]
    assert chosen(new(document, placement_keys=keys)) == ["node2"]


# rounds


def test_threshold_has_to_be_exceeded() -> None:
    """A node with an affinity of exactly the threshold fails the round."""
    tags = {"node1": {"tags": ["iallocator:key:fast:0.8", "iallocator:key:_a:0"]},
            "node2": {"tags": ["iallocator:key:fast:0.805", "iallocator:key:_a:0"]},
            "node3": {"tags": ["iallocator:key:fast:0.1", "iallocator:key:_a:1"]}}  # fmt: skip
    document = cluster(3, memory=65536, changes=tags)
    fast = "iallocator:syskey:fast:1:100"
    assert chosen(new(document, fast)) == ["node2"]
    assert chosen(new(document, fast, "iallocator:key:_a:0:5"), "--initial-msav=79") == ["node1"]
    assert chosen(new(document, fast, "iallocator:key:_a:1:5"), "--msav-steps=1") == ["node3"]


def test_thresholds_of_rounds_decrease_evenly() -> None:
    """The thresholds of rounds decrease evenly, so that near affinities share a round.

    In one round, the preference of the customer decides between two nodes.
    """
    for threshold in range(80, 0, -10):
        above, below = (threshold + 9.5) / 100, (threshold + 0.5) / 100
        tags = {
            "node1": {"tags": [f"iallocator:key:fast:{above:.3f}", "iallocator:key:_a:0"]},
            "node2": {"tags": [f"iallocator:key:fast:{below:.3f}", "iallocator:key:_a:1.5"]},
            "node3": {"tags": [f"iallocator:key:fast:{below - 0.01:.3f}", "iallocator:key:_a:2"]},
        }
        document = cluster(3, memory=65536, changes=tags)
        wanted = new(document, "iallocator:syskey:fast:1:100", "iallocator:key:_a:2:10")
        assert chosen(wanted) == ["node2"], threshold
    assert f"8 of 10, above {threshold}" in explained(wanted)


def test_rejection_when_no_threshold_is_exceeded() -> None:
    """A node that exceeds no threshold is rejected; --final-msav sets the last threshold."""
    document = rooms(2)
    repelled = "iallocator:syskey:room:1:-15", "iallocator:specialkey:load:0:-11"
    assert ask(new(document, *repelled))["success"] is False
    assert chosen(new(document, *repelled), "--final-msav=-11.5") == ["node2"]
    assert chosen(new(document, "iallocator:specialkey:load:0:-9.5")) == ["node1"]


# memory


def test_free_memory_of_both_kinds_must_exceed_size_and_overhead() -> None:
    """A node is rejected unless unallocated and free memory both exceed size and overhead."""
    for free, ratio, fits in ((5120, "1", False), (5121, "1", True), (8192, "0.625", False),
                              (8192, "0.6251", True)):  # fmt: skip
        contention = [f"iallocator:ram-contention:{ratio}"]
        document = cluster(1, changes={"node1": {"free_memory": free, "tags": contention}})
        assert ask(new(document, memory=4096))["success"] is fits, (free, ratio)
        assert ask(new(document, memory=4096), "--affinity-overhead=0")["success"]


def test_stopped_instances_need_no_memory_and_add_no_keys_to_their_node() -> None:
    """A stopped instance uses no memory of its node, and adds no customer keys to it."""
    tags = ["iallocator:key:acme:1:1"]
    document = cluster(
        2,
        instances={
            "stopped": rbd("node2", memory=6000, tags=tags),
            "running": rbd("node1", memory=1024, tags=tags),
        },
    )
    document["instances"]["stopped"]["admin_state"] = "down"
    document["nodes"]["node2"]["free_memory"] = 8192
    assert chosen(new(document, "iallocator:key:acme:1:-1")) == ["node2"]
    document["instances"]["stopped"]["admin_state"] = "up"
    document["nodes"]["node2"]["free_memory"] = 2192
    assert chosen(new(document, "iallocator:key:acme:1:-1")) == ["node1"]


# sticky keys


def test_sticky_keys_bring_the_instance_back() -> None:
    """With the sticky keys of an answer, the next answer has the same node."""
    tags = {f"node{n}": {"tags": [f"iallocator:stickykey:store:{n}:90"]} for n in (1, 2, 3)}
    document = cluster(3, memory=65536, changes=tags)
    first = ask(new(document, restrict=["node3"]))
    assert first["solutions"][0]["sticky_keys"] == ["iallocator:syskey:store:3:90"]
    again = ask(new(document, *first["solutions"][0]["sticky_keys"]))
    assert again["result"] == ["node3"]
    assert chosen(new(document)) == ["node1"]


def test_sticky_reserved_key_is_a_customers_on_the_instance() -> None:
    """A reserved key of a node becomes a customer key of an instance on it."""
    tags = {f"node{n}": {"tags": [f"iallocator:stickykey:_store:{n}:9"]} for n in (1, 2)}
    document = cluster(2, memory=65536, changes=tags)
    (entry,) = ask(new(document, restrict=["node2"]))["solutions"]
    assert entry["sticky_keys"] == ["iallocator:key:_store:2:9"]
    assert chosen(new(document, *entry["sticky_keys"])) == ["node2"]


# what answers reveal


SECRETS = ("globex", "topology", "_windows", "other", "node3")


def test_info_names_no_key_and_no_other_instance() -> None:
    """An answer reveals no key and no instance of a node; `explain` does."""
    document = cluster(
        3,
        memory=65536,
        instances={
            "other-machine": rbd(
                "node3", tags=["iallocator:key:globex:1:5"]
            )
        },
        changes={f"node{n}": {"tags": ["iallocator:key:topology:1", "iallocator:key:_windows:1"]}
                 for n in (1, 2, 3)},
    )  # fmt: skip
    accepted = ask(new(document, "iallocator:key:globex:1:-5"))
    rejected = ask(new(document, "iallocator:syskey:topology:1:-99"))
    assert (accepted["success"], rejected["success"]) == (True, False)
    for response in (accepted, rejected):
        assert not [secret for secret in SECRETS if secret in response["info"]], response["info"]
    reported = explained(new(document, "iallocator:syskey:topology:1:-99"))
    assert "-99" in reported
    assert "topology" in reported


def test_explain_names_the_rule_that_decided() -> None:
    """`explain` names the rule that decided, with its numbers and keys."""
    tags = {f"node{n}": {"tags": [f"iallocator:key:_gpu:{n}"]} for n in (1, 2)}
    reported = explained(new(cluster(2, memory=65536, changes=tags), "iallocator:key:_gpu:2:30"))
    assert "customer affinity: 30 against 0" in reported
    assert "_gpu" in reported


# tags and documents that are not as they should be


BAD_TAGS = (
    "iallocator:key:fast", "iallocator:key::1", "iallocator:key:fast:high",
    "iallocator:key:fast:nan", "iallocator:key:fast:1:1", "iallocator:stickykey:fast:1",
    "iallocator:ram-contention:0", "iallocator:cpu-contention:-1", "iallocator:syskey:fast:1",
)  # fmt: skip


@pytest.mark.parametrize("tag", BAD_TAGS)
def test_invalid_tag_of_a_node_is_reported_and_ignored(tag: str) -> None:
    """An invalid placement key in a tag of a node is reported and ignored."""
    document = new(cluster(1, changes={"node1": {"tags": [tag]}}), "iallocator:syskey:fast:1:-90")
    command = [sys.executable, "-m", "iallocator", "--strategy=affinity", "--n1=off"]
    done = subprocess.run(command, input=as_bytes(document), capture_output=True, check=True)
    assert json.loads(done.stdout)["result"] == ["node1"]
    remarks = done.stderr.decode().splitlines()
    assert [line for line in remarks if repr(tag) in line and "node1" in line], remarks


@pytest.mark.parametrize(
    "tag",
    ["iallocator:key:fast:1", "iallocator:syskey:fast:one:1", "iallocator:specialkey:disk:0:1",
     "iallocator:syskey:_fast:1:1", "iallocator:key:fast:1:inf"],
)  # fmt: skip
def test_invalid_tag_of_an_instance_is_reported_and_ignored(tag: str) -> None:
    """An invalid placement key in a tag of an instance is reported and ignored."""
    command = [sys.executable, "-m", "iallocator", "--strategy=affinity", "--n1=off"]
    raw = as_bytes(new(cluster(1), tag))
    done = subprocess.run(command, input=raw, capture_output=True, check=True)
    assert json.loads(done.stdout)["result"] == ["node1"]
    assert repr(tag) in done.stderr.decode()


@pytest.mark.parametrize(
    ("change", "where"),
    [({"level": "planet"}, "level"), ({"class": "mine"}, "class"), ({"value": "1"}, "value"),
     ({"weight": None}, "weight"), ({"name": ""}, "name"),
     ({"class": "special", "name": "#DISK"}, "name")],
)  # fmt: skip
def test_invalid_key_in_a_list_is_an_error_with_its_place(change: Json, where: str) -> None:
    """An invalid placement key in a list of the document is an error that names its place."""
    bad = room(1) | change
    for document, path in (
        ({**new(rooms(1)), "placement_keys": [room(1), bad]}, "placement_keys/1"),
        (new(rooms(1), placement_keys=[bad]), "request/placement_keys/0"),
    ):
        with pytest.raises(RequestError) as caught:
            ask(document)
        assert str(caught.value).startswith(f"{path}/{where}: expected ")


@pytest.mark.parametrize(
    "words",
    ["--msav-steps=0", "--msav-steps=x", "--initial-msav=high", "--final-msav=nan", "--seed=-1",
     "--affinity-overhead=-5"],
)  # fmt: skip
def test_invalid_option_is_rejected(words: str) -> None:
    """An invalid option for placement keys is rejected with the expected form."""
    with pytest.raises(UsageError, match="expected "):
        ask(new(cluster(1)), words)


def test_tag_prefix_counts_for_keys() -> None:
    """With another tag prefix, only tags with this prefix are placement keys.

    Sticky keys in answers have the prefix, too.
    """
    tags = ["our:key:fast:1", "our:stickykey:a:1:2"]
    document = cluster(2, memory=65536, changes={"node2": {"tags": tags}})
    (entry,) = ask(new(document, "our:syskey:fast:1:99"), "--tag-prefix=our:")["solutions"]
    assert (entry["nodes"], entry["sticky_keys"]) == (["node2"], ["our:syskey:a:1:2"])
    assert chosen(new(document, "our:syskey:fast:1:99")) == ["node1"]


def test_affinity_on_a_small_request_loads_nothing_slow() -> None:
    """The strategy ``affinity`` imports only a few modules of its own."""
    modules = loaded(as_bytes(new(rooms(3), "iallocator:syskey:room:2:50")), "--strategy=affinity")
    assert not {module.split(".")[0] for module in modules} & set(SLOW)


def test_placement_keys_alone_change_nothing() -> None:
    """Under other strategies, placement keys have no effect, and their parser is not imported."""
    keyed = new(rooms(3), "iallocator:syskey:room:2:50", placement_keys=[room(3)])
    assert respond(keyed)["result"] == ["node1"]
    assert not _named("ranking.affinity", loaded(as_bytes(keyed)))


def _named(word: str, modules: Iterable[str]) -> list[str]:
    return [module for module in modules if word in module]


def test_exact_search_uses_no_node_that_the_keys_reject() -> None:
    """Exact search places no instance on a node that fails all rounds of keys."""
    document = rooms(2)
    tags = {"good": [], "bad": [f"iallocator:syskey:room:{n}:-99" for n in (1, 1.5)]}
    batch = [new({}, *tags[name], name=name)["request"] for name in tags]
    batch[1]["placement_keys"] = [room(1.5, weight=-99)]
    request = {"type": "multi-allocate", "instances": batch}
    for search in ("yes", "no"):
        response = ask({**document, "request": request}, f"--exact-search={search}")
        assert response["result"] == [[["good", ["node1"]]], ["bad"]], search
        assert response["solutions"][0]["sticky_keys"] == []


def test_settings_of_a_group_count_for_its_nodes() -> None:
    """Tags of cluster and group set thresholds and overhead for their nodes."""
    document = cluster({"default": 1, "lax": 1}, memory=65536)
    document["nodegroups"]["uuid-lax"]["tags"] = ["iallocator:final-msav:-100"]
    document["cluster_tags"] = ["iallocator:final-msav:-20"]
    for weight, nodes in ((-15, ["node1"]), (-50, ["node2"]), (-150, [])):
        tag = f"iallocator:specialkey:load:0:{weight}"
        assert chosen(new(document, tag)) == nodes, weight
        assert chosen(new(document, tag), "--final-msav=-200") == ["node1"]
