"""``python -m iallocator``."""

import sys

from iallocator.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
