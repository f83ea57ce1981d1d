"""Measure how long a browser takes to open pages of large clusters (Debian: chromium).

``python -m benchmarks.pages [--nodes N,...] [--runs N]`` prints a table: elements of the page, and
the median of the processor seconds that the rendering process of the browser takes to draw it. The
goal is 2 s for 1000 nodes with 5 instances each, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from statistics import median
from typing import Any

import orjson

from benchmarks.clusters import Shape, document


def seconds_of_renderers(session: Any) -> dict[int, float]:
    """Return the processor seconds of each rendering process of the browser, by its id."""
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return {one["id"]: one["cpuTime"] for one in found if one["type"] == "renderer"}


def opened(browser: Any, path: Path) -> tuple[int, float]:
    """Open a page in a new tab; return its number of elements and the processor seconds."""
    session = browser.new_browser_cdp_session()
    before = seconds_of_renderers(session)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    after = seconds_of_renderers(session)
    elements = page.evaluate("document.getElementsByTagName('*').length")
    page.close()
    return elements, sum(time - before.get(process, 0.0) for process, time in after.items())


def main() -> int:
    """Print a row for each size of cluster; exit status 2 without a browser."""
    parser = argparse.ArgumentParser(prog="benchmarks.pages", description=__doc__)
    parser.add_argument("--nodes", default="20,100,1000", help="sizes of the clusters")
    parser.add_argument("--runs", type=int, default=5, help="runs of each")
    options = parser.parse_args()
    executable = which("chromium") or which("google-chrome")
    if executable is None:
        print("no browser is installed (Debian: chromium)", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    print("| nodes | elements | seconds |\n|---:|---:|---:|")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        source, page = Path(folder, "cluster.json"), Path(folder, "page.html")
        for nodes in (int(text) for text in options.nodes.split(",")):
            source.write_bytes(orjson.dumps(document(Shape(nodes, "drbd", per_node=5))))
            subprocess.run(
                [sys.executable, "-m", "iallocator", "show", f"--html={page}", source],
                check=False, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            runs = [opened(browser, page) for _ in range(options.runs)]
            print(f"| {nodes} | {runs[0][0]} | {median(seconds for _, seconds in runs):.2f} |")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
