"""Run the commands of the manual that are marked "e2e", in the order of the pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from vcluster.layout import DOMAIN, NODE_STATE, instance

from scenario.creation import add
from scenario.reading import program
from scenario.runner import Runner

DOCS = Path(__file__).resolve().parents[3] / "docs"

PAGES = (
    "tutorial/from-hail",
    "how-to/roll-back-to-hail",
    "how-to/keep-instances-apart-or-together",
    "how-to/spread-over-racks",
    "how-to/pin-an-instance-to-ssd-nodes",
    "how-to/restrict-instances-to-labelled-nodes",
    "how-to/over-commit-memory",
    "how-to/reserve-disk",
    "how-to/set-up-storage-pools",
    "how-to/set-priorities-and-order",
    "how-to/keep-instances-where-they-are",
    "how-to/spread-over-groups",
    "how-to/limit-migrations",
    "how-to/explain-a-decision",
    "reference/running-clusters",
    "how-to/use-several-volume-groups",
    "how-to/save-power",
    "how-to/empty-a-group",
    "how-to/empty-a-node",
    "how-to/continue-after-an-interruption",
    "reference/planners",
    "how-to/handle-a-dead-node",
    "how-to/uninstall",
    "how-to/install",
)
"""Pages with blocks marked "e2e"; each page continues with the cluster of the previous one."""

INSTANCES = ("web1", "web2", "db1", "db", "shop", "mail")
"""The instances that the pages name, except those that they create."""

NODES = {"db1": "node2:node1"}
"""Nodes of instances, where a page says how they are moved."""

BEFORE = {"how-to/uninstall": "gnt-instance add-tags web1 iallocator:separate:must:web"}
"""Page -> the command that makes its prerequisite."""

JOURNAL = "/var/lib/iallocator/balance-20260101-023000-a1b2c3.journal"
"""The journal of the last plan, in the manual."""

CALLS = "/var/lib/iallocator/calls"
"""Folder for captured calls in the manual."""

MARKED = re.compile(r"(?m)^```console e2e\n((?:.*\n)*?)```$")


def manual(run: Runner) -> None:
    """Run the marked commands of each page; a command that fails is an error.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("commands of the manual")
    run.clear()
    roles = run.cluster.ask("gnt-node", "list", "--no-headers", "--separator=:", "-o", "name,role")
    for line in roles.split():
        name, _, role = line.partition(":")
        if role == "R":  # earlier sections marked it as offline: it is not a candidate since then
            run.arrange("gnt-node", "modify", "--master-candidate=yes", name)
    for name in INSTANCES:
        pair = [f"{node}.{DOMAIN}" for node in NODES[name].split(":")] if name in NODES else []
        place = [f"--node={':'.join(pair)}"] if pair else []
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", *place))
    folder = f"{NODE_STATE}/manual"
    calls = f"{folder}/calls"  # the nodes of the test cannot write to the folder in the manual
    prepare = (
        f"mkdir -p {folder}/bin && ln -sf {shlex.quote(program())} {folder}/bin/iallocator && "
        f"install -d -o root -g root -m 700 {calls}"
    )
    run.arrange("sh", "-c", prepare)
    begin = f"cd {folder} && PATH={folder}/bin:$PATH"
    journals = 0
    for page in PAGES:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        if page in BEFORE:
            run.arrange(*shlex.split(BEFORE[page]))
        for block in MARKED.findall(text):
            for command in re.findall(r"(?m)^[$#] (.*)$", block):
                # the test stands between Ganeti and the plugin, under a name of its own
                ours = command.replace("-I iallocator", f"-I {run.cluster.allocator}")
                ours = ours.replace(CALLS, calls).replace(JOURNAL, f"{folder}/{journals}")
                ours = ours.replace("/root/", f"{folder}/")
                if " -X" in ours and "--resume" not in ours:
                    journals += "--undo" not in ours
                    name = f"undo-{journals}" if "--undo" in ours else str(journals)
                    ours = ours.replace(" -X", f" -X --journal={folder}/{name}")
                done = run.cluster.gnt("sh", "-c", f"{begin} && {ours}")
                # nodes of the test may report space that nothing explains: `check` then ends with 1
                fine = (0, 1) if "iallocator check" in ours else (0,)
                found = [] if done.status in fine else [f"exit status {done.status}: {done.output}"]
                run.record(f"{page}: {command}", found)
    run.arrange("gnt-cluster", "modify", "-I", run.cluster.allocator)
    run.drop("test1", *INSTANCES)
    gone = [name for name in ("test1", *INSTANCES) if instance(name) in run.instances]
    run.record("the instances of the manual are removed", gone)
