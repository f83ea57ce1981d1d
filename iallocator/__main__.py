"""``python -m iallocator``."""

from iallocator.process import run

if __name__ == "__main__":
    run()
