"""Run the program as ``python -m iallocator``."""

import _signal  # type: ignore[import-not-found]  # the half of `signal` that loads no enum

if __name__ == "__main__":
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # Ctrl-C ends what is being loaded, silently

    from iallocator.process import run

    run()
