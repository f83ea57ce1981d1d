"""Simulate a running cluster at a socket, which answers queries and executes jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.builders import Json
from tests.live.cluster_answers import instance, luxi_answer, node, rapi_answers
from tests.live.fakes import fake_luxi

__all__ = ["Running", "running", "shared_cluster"]

CLOSED = b""
"""An answer that stands for a connection that ends without an answer."""


class Running:
    """A running cluster with its queue and its faults.

    Attributes
    ----------
    answers:
        Groups, nodes and instances, as RAPI reports them.
    submitted:
        Lists of jobs, as submitted.
    fails:
        Instances and nodes with opcodes that fail.
    booting:
        Node -> how many more queries it does not answer: to be set online, or for its memory.
    read_while_booting:
        Number of queries for all instances while a node did not answer.
    broken_power:
        Nodes with an out-of-band program that fails.
    syncing:
        Instance -> the states of its disk, one per query; afterwards it is in sync.
    held:
        True if jobs stay in the queue.
    interfere:
        Called with the method before every answer; a result other than None is the answer.
    """

    def __init__(self, answers: Json) -> None:
        self.answers = json.loads(json.dumps(answers))
        self.submitted: list[list[list[Json]]] = []
        self.jobs: dict[int, Json] = {}
        self.fails: set[str] = set()
        self.booting: dict[str, int] = {}
        self.read_while_booting = 0
        self.broken_power: set[str] = set()
        self.syncing: dict[str, list[Any]] = {}
        self.held = False
        self.interfere: Callable[[str], Any] = lambda method: None
        self.path = ""

    def answer(self, method: str, arguments: list[Any]) -> Any:
        """Return the answer of the simulated master daemon to the LUXI call `method`."""
        output = self.interfere(method)
        if output is not None:
            return output
        if method == "SubmitManyJobs":
            return self._submit(arguments[0])
        if method == "QueryJobs":
            return self._query(*arguments)
        if method == "CancelJob":
            return self._cancel(arguments[0])
        if method == "ChangeJobPriority":
            self.jobs[arguments[0]]["priority"] = arguments[1]
            return [True, ""]
        if method == "WaitForJobChange":
            self.pass_time()
            return "nochange"
        if method == "Query" and arguments[0] == "job":
            return {"data": []}  # no job has been archived
        if method == "Query" and arguments[0] == "instance":
            self.read_while_booting += any(left > 0 for left in self.booting.values())
        if method == "Query" and arguments[1] == ["name", "mtotal"]:
            known = [(node["name"], node["mtotal"]) for node in self.answers["nodes"]]
            rows = [[[0, name], [2 * (size is None), size]] for name, size in known]
            return {"data": [row for row in rows if not self.boots(row[0][1])]}
        return luxi_answer(self.answers, method, arguments)

    def _submit(self, jobs: list[list[Json]]) -> Any:
        self.submitted.append(jobs)
        ids: list[int] = []
        for codes in jobs:
            after = [o if o > 0 else ids[o] for o, _ in codes[0].get("depends") or ()]
            ids.append(len(self.jobs) + 1)
            self.jobs[ids[-1]] = {"ops": codes, "after": after, "status": "queued", "done": 0}
            self.jobs[ids[-1]]["results"] = []
        return [[True, job_id] for job_id in ids]

    def _query(self, ids: list[int], fields: list[str]) -> Any:
        return [
            [self._field(job_id, field) for field in fields] for job_id in (ids or list(self.jobs))
        ]

    def _field(self, job_id: int, field: str) -> Any:
        job = self.jobs.get(job_id)
        if field == "id" or job is None:
            return job_id if field == "id" else None
        rest = len(job["ops"]) - job["done"]
        if field == "opstatus":
            return ["success"] * job["done"] + [job["status"]] * rest
        if field == "opresult":
            failed = ["OpExecError", ["it cannot"]] if job["status"] == "error" else None
            return job.get("results") or [failed]
        return job[field]

    def _cancel(self, job_id: int) -> Any:
        waiting = self.jobs[job_id]["status"] == "queued"
        if waiting:
            self.jobs[job_id]["status"] = "canceled"
        return [waiting, ""]

    def pass_time(self) -> None:
        """Execute every job without unfinished dependencies, unless jobs are held."""
        for job in self.jobs.values():
            before = {self.jobs[other]["status"] for other in job["after"]}
            if job["status"] != "queued" or self.held:
                continue
            if before & {"error", "canceled"}:
                job["status"] = "error"
            elif before <= {"success"}:
                self._carry_out(job)

    def _carry_out(self, job: Json) -> None:
        for code in job["ops"]:
            if self.fails & {code.get("instance_name"), code.get("node_name"), code.get("name")}:
                job["status"] = "error"
                return
            if code.get("offline") is False and self.boots(code["node_name"]):
                why = (
                    f"Node {code['node_name']} is being de-offlined but fails to report its version"
                )
                job["status"] = "error"
                job["results"] = [["OpPrereqError", [f"{why}: no connection", "wrong_state"]]]
                return
            self._do(code)
            if code["OP_ID"] == "OP_OOB_COMMAND":
                failed = 2 if self.broken_power & set(code["node_names"]) else 0
                said = {"powered": True} if code["command"] == "power-status" else None
                job["results"] = [[[[0, name], [failed, said]] for name in code["node_names"]]]
            elif code["OP_ID"] == "OP_INSTANCE_QUERY_DATA":
                job["results"] = [{name: self._disks(name) for name in code["instances"]}]
            job["done"] += 1
        job["status"] = "success"

    def boots(self, node: str) -> bool:
        """Return whether a node does not answer yet."""
        self.booting[node] = self.booting.get(node, 0) - 1
        return self.booting[node] >= 0

    def _disks(self, name: str) -> Json:
        """Return Ganeti's report about the one disk of an instance."""
        here = self.found(name)
        well = ["/dev/drbd0", 147, 0, None, None, False, 0]
        later = self.syncing.get(name) or [well]
        disk = {"dev_type": "drbd", "pstatus": well, "sstatus": later[0]}
        disk["drbd_info"] = {"primary_node": here["pnode"], "secondary_node": here["snodes"][0]}
        self.syncing[name] = later[1:]
        return {"run_state": "up", "disks": [disk]}

    def _do(self, code: Json) -> None:
        if code["OP_ID"] in ("OP_OOB_COMMAND", "OP_INSTANCE_QUERY_DATA"):
            return
        one = self.found(code.get("instance_name") or code.get("node_name") or code.get("name"))
        if code["OP_ID"] == "OP_NODE_SET_PARAMS":
            one |= {"drained": False} if "offline" in code else {}
            one |= {"master_candidate": code.get("master_candidate", False)}  # the pool is full
            one |= {key: code[key] for key in ("offline", "drained") if key in code}
        elif code["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            one["snodes"] = [code["remote_node"]]
        elif code["OP_ID"] in ("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER"):
            target = code.get("target_node")
            if target is None:
                one["pnode"], one["snodes"] = one["snodes"][0], [one["pnode"]]
            else:
                one["pnode"] = target
        elif code["OP_ID"] in ("OP_TAGS_SET", "OP_TAGS_DEL"):
            rest = [tag for tag in one.get("tags") or () if tag not in code["tags"]]
            one["tags"] = rest + (code["tags"] if code["OP_ID"] == "OP_TAGS_SET" else [])

    def found(self, name: str | None) -> Json:
        """Return the stored fields of a node or an instance called `name`."""
        known: list[Json] = [*self.answers["nodes"], *self.answers["instances"]]
        return next(one for one in known if one["name"] == name)

    def places(self) -> dict[str, list[str]]:
        """Return the nodes of every instance of the simulated cluster."""
        return {one["name"]: [one["pnode"], *one["snodes"]] for one in self.answers["instances"]}


@contextmanager
def running(folder: Path, answers: Json | None = None) -> Iterator[Running]:
    """Yield a running cluster that answers at a socket in `folder`.

    `answers`: groups, nodes and instances as RAPI reports them; None for a small usual cluster.
    """
    cluster = Running(rapi_answers() if answers is None else answers)
    with fake_luxi(folder, cluster.answer) as server:
        cluster.path = server.path
        yield cluster


def shared_cluster() -> Json:
    """Return answers for two groups on shared storage; one is nearly full, with an offline node."""
    answers = rapi_answers()
    answers["nodes"] = [node(f"node{n}") for n in (1, 2, 3)]
    answers["nodes"] += [node(f"node{n}", **{"group.uuid": "uuid-two"}) for n in (4, 5)]
    answers["instances"] = [
        {**instance(f"i{n}", "node1", disk_template="rbd"), "nic.networks": []} for n in range(4)
    ]
    answers["nodes"][0]["mfree"] -= 4 * 2048
    answers["networks"] = []
    answers["info"]["master"] = "node1"
    for group in answers["groups"]:
        group["ipolicy"] = {**group["ipolicy"], "disk-templates": ["rbd", "drbd", "plain"]}
    return answers
