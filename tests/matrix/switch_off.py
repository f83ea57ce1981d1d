"""Disable each feature of the matrix, and list the cases that still pass.

`python -m tests.matrix.switch_off WORD...` disables the features with one of those words in their
names, or all without words. Every case of a feature must fail without it. Exit status 1: some pass.
"""

from __future__ import annotations

import sys

from .paths import PATHS
from .switches import SWITCHES, switched_off
from .test_matrix import CELLS, test_feature_changes_the_answer_of_the_path

TOLD_NO_FIGURES = (
    "a running cluster tells no figures of such nodes: there is no room on them anyway"
)

BESIDES = {
    ("offline", "snapshot"): TOLD_NO_FIGURES,
    ("offline", "live execution"): TOLD_NO_FIGURES,
    ("not vm_capable", "snapshot"): TOLD_NO_FIGURES,
    ("not vm_capable", "live execution"): TOLD_NO_FIGURES,
    ("cpu ratio", "place"): "the strategy prefers free virtual cpus",
}
"""Feature and path -> why the case passes without the feature: another fact decides alike."""


def deciding(feature: str) -> list[tuple[str, str]]:
    """Return path and kind of the cases of a feature, without paths that only display facts."""
    cells = [(path, kind) for name, path, kind in CELLS if name == feature]
    return [
        (path, kind)
        for path, kind in cells
        if not PATHS[path].shown and (feature, path) not in BESIDES
    ]


def passing_cases(feature: str) -> list[str]:
    """Return the cases of a row that pass without the feature, as ``path (kind)``."""
    found = []
    for path, kind in deciding(feature):
        try:
            with switched_off(feature):
                test_feature_changes_the_answer_of_the_path(feature, path, kind)
        except Exception:
            continue
        found.append(f"{path} ({kind})")
    return found


def main(words: list[str]) -> int:
    """Print, for each feature, how many cases fail without it, and which cases pass."""
    status = 0
    print("| feature switched off | cells | red | green |\n|---|---|---|---|")
    for feature in dict.fromkeys(name for name, _, _ in CELLS):
        if words and not any(word in feature for word in words):
            continue
        cells = len(deciding(feature))
        green = passing_cases(feature) if feature in SWITCHES else ["no switch"]
        print(f"| {feature} | {cells} | {cells - len(green)} | {'; '.join(green)} |", flush=True)
        status = status or bool(green)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
