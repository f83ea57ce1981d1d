"""Check on every path that the toy template `iscsi` is treated like the shared template `ext`.

Run by `test_toys.py` with a copy of the package that has the toy template. The script exits with an
error if an answer or a plan differs in more than the name of the template.
"""

from __future__ import annotations

import json
from copy import deepcopy

from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import json_of, plan_of, printed, respond, run

TOY, LIKE = "iscsi", "ext"


def scenario(template: str) -> Json:
    """Return five uneven nodes, and instances with the disk template `template`."""
    held = {
        f"i{k}": instance(f"node{k % 3 + 1}", memory=500 + 100 * k, disk_template=template)
        for k in range(9)
    }
    made = cluster(nodes={"a": 4, "b": 2}, instances=held)
    made["ipolicy"]["disk-templates"] = [template]
    for group in made["nodegroups"].values():
        group["ipolicy"]["disk-templates"] = [template]
    return made


def renamed(value: Json) -> Json:
    """Return `value` with the name of the toy template replaced by `ext`."""
    made: Json = json.loads(json.dumps(value).replace(TOY, LIKE))
    return made


def requests() -> None:
    """Check every request type with each mode of N+1, and the explanation."""
    kinds: list[Json] = [
        {"type": "relocate", "name": "i1", "relocate_from": ["node2"], "required_nodes": 1},
        {"type": "node-evacuate", "instances": ["i0", "i3"], "evac_mode": "all"},
        {"type": "change-group", "instances": ["i0", "i1"], "target_groups": ["uuid-b"]},
    ]
    for mode in ("strict", "no-worse", "off"):
        answers = []
        for template in (TOY, LIKE):
            new = allocate(scenario(template), memory=700, disk_template=template)
            one = {**new["request"], "name": "new0"}
            several = {"type": "multi-allocate", "instances": [one, {**one, "name": "new1"}]}
            documents = [
                new,
                *({**scenario(template), "request": kind} for kind in (several, *kinds)),
            ]
            answers.append([respond(deepcopy(one), f"--n1={mode}") for one in documents])
            assert all(answer["success"] for answer in answers[-1]), answers[-1]
            for document in documents:
                assert printed("explain", document=document)
                assert run("--validate", stdin=as_bytes(document)).returncode == 0
        assert renamed({"": answers[0]}) == {"": answers[1]}


def planners() -> None:
    """Check that planners move the instances, and that N+1 restarts them on other nodes."""
    for words in (
        ("balance",), ("squeeze",), ("balance-groups",), ("compress",), ("redistribute",),
    ):  # fmt: skip
        plans = [plan_of(*words, scenario(template)) for template in (TOY, LIKE)]
        assert renamed(plans[0]) == plans[1], words
    for words in (("check",), ("capacity",), ("show",), ("constraints",)):
        found = [json_of(*words, document=scenario(template)) for template in (TOY, LIKE)]
        assert renamed(found[0]) == found[1], words
    assert plan_of("balance", scenario(TOY))["moves"]


if __name__ == "__main__":
    for path in (requests, planners):
        path()
