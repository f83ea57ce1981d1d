"""Measure the time of each stage of one request in a new interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

__all__ = ["stages"]

SCRIPT = """
import gc, json, sys, time
gc.disable()
marks = [("start", time.perf_counter())]
def mark(name): marks.append((name, time.perf_counter()))
from iallocator.options.settings import Settings
from iallocator.engine import candidates_of
from iallocator.wire.codec import decode
from iallocator.wire.document import read_cluster
from iallocator.wire.request import read_request
from iallocator.placement.context import Context
from iallocator.handlers import handler_for
from iallocator.wire.codec import encode
from iallocator.wire.reading import Reading
mark("imports")
settings = Settings()
raw = sys.stdin.buffer.read()
mark("read")
document = decode(raw); mark("decode")
reading = Reading.of(settings)
cluster = read_cluster(document, reading)
request = read_request(document, cluster, reading); mark("model")
candidates = candidates_of(cluster, request)
context = Context(cluster, settings, candidates); mark("state")
if context.kernels.arrays:
    import iallocator.scoring.arrays
handle = handler_for(request.kind); mark("arrays")
reply = handle(context, request); mark("answer")
encode(reply); mark("encode")
settings.n1 = "off"
context = Context(cluster, settings, candidates); mark("again")
handle(context, request); mark("kernel")
took = {name: (b - a) * 1e3 for (_, a), (name, b) in zip(marks, marks[1:])}
took["N+1"] = max(0.0, took["answer"] - took["kernel"])
names = ["imports", "decode", "model", "state", "arrays", "kernel", "N+1", "encode"]
print(json.dumps({name: round(took[name], 2) for name in names}))
"""


def stages(raw: bytes) -> dict[str, Any]:
    """Return the milliseconds of each stage.

    ``imports``, ``decode`` (JSON), ``model`` and ``state`` (from the document), ``arrays`` (loading
    the array library if it is used, and the handler), ``kernel`` (the whole answer without the N+1
    test), ``N+1`` (what the test adds), ``encode``.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=raw, capture_output=True, check=True
    )
    return dict(json.loads(done.stdout))
