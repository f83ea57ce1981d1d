"""Print the matrix: for each feature its paths, and the reasons for the missing ones.

`python -m tests.matrix WORD` prints the features with that word in their names.
"""

from __future__ import annotations

import sys

from .reasons import table


def main(words: list[str]) -> None:
    """Print the features with one of `words` in their names; all without words."""
    print("Features, and the paths on which they are tested; (*): under every strategy.\n")
    shown = True
    for line in table():
        if not line.startswith(" "):
            shown = not words or any(word in line for word in words)
        if shown:
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
