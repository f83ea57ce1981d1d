"""What a command is, and what its result is, for the one runner."""

from __future__ import annotations

from iallocator.errors import tell
from iallocator.options.settings import Settings as Common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records
    from iallocator.model.state import State
    from iallocator.options.table import Option
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

    Follower = Callable[[Records], None]
    """Told how far an execution is."""

    Followed = Callable[[JobQueue], Follower]

__all__ = ["Command", "Result", "ShownState", "print_json"]


class ShownState:
    """A state that is shown on stderr and saved in a file, if options ask for that.

    Attributes
    ----------
    moment:
        The word before the titles of its lists: ``Initial``.
    suffix:
        The ending of the file with the state; "" for no file.
    state:
        Makes the state when it is asked for.
    """

    __slots__ = ("moment", "state", "suffix")

    def __init__(self, moment: str, suffix: str, state: Callable[[], State]) -> None:
        self.moment = moment
        self.suffix = suffix
        self.state = state


class Result:
    """What a command found: one document, and what renders it.

    Attributes
    ----------
    status:
        The exit status, unless a signal ended the work early.
    interrupted:
        Whether a signal ended the work early.
    executable:
        Whether ``-X`` may carry the result out.
    finite:
        Whether no number of the document can be infinite, so that a faster writer may be used.
    problems:
        What is wrong, reported on stderr last.
    """

    status = 0
    finite = False
    interrupted = False
    executable = True

    def __init__(self) -> None:
        self.problems: list[str] = []

    def remarks(self) -> Iterable[str]:
        """Return what a person should know, for stderr."""
        return ()

    def states_before(self) -> Iterable[ShownState]:
        """Return the states to show before the document is written."""
        return ()

    def complete(self) -> bool:
        """Do what is left to do; return whether the result may be shown."""
        return True

    def states_after(self) -> Iterable[ShownState]:
        """Return the states to show after the document is written."""
        return ()

    def document(self) -> Json:
        """Return the result as plain data."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the document as text for people, with the end of its last line."""
        raise NotImplementedError

    def page(self) -> PageView:
        """Return the result as a page for a browser."""
        raise NotImplementedError

    def transition(self) -> Json:
        """Return the steps of the result, for a drawing or to carry them out."""
        transition: Json = self.document()["transition"]
        return transition

    def script(self) -> list[str]:
        """Return the shell commands that carry the result out."""
        raise NotImplementedError


class Command:
    """A command: how it is called, what it reads, and how it finds its result.

    `iallocator.commands.runner.run` calls the methods, in the order in which they stand here.
    The docstring of a subclass describes the command in its manual page.

    Attributes
    ----------
    usage:
        What follows the name of the command on the usage line.
    options:
        The options of this command; it also takes the common options that act in it.
    settings_type:
        The settings, with the defaults of those options.
    suffixes:
        Endings of the files that ``--save-cluster`` writes.
    measured:
        Whether monitoring daemons are asked how busy instances are.
    source:
        The cluster that was read.
    effective:
        The settings, completed from tags.
    warnings:
        What was wrong with settings in tags.
    """

    usage = "[OPTIONS] [FILE]"
    options: Sequence[Option] = ()
    settings_type: type[Common] = Common
    suffixes: Sequence[str] = ()
    measured = True

    source: Source
    effective: Common
    settings: Any

    def __init__(self, name: str, settings: Common, positional: Sequence[str]) -> None:
        self.name = name
        self.settings = settings
        self.positional = positional
        self.warnings: list[str] = []

    @staticmethod
    def files_of(positional: Sequence[str]) -> Sequence[str]:
        """Return those of the words that are files."""
        return positional

    def check(self) -> None:
        """Reject options that contradict each other.

        Raises
        ------
        UsageError
            If they do.
        """

    def substitute(self) -> Command:
        """Return the command to run: another one if options turn this one into it."""
        return self

    def find(self) -> Result | None:
        """Return the result of a command that reads its input itself.

        None, as here: the runner reads the cluster, and calls `adjust`, `asked` and `plan`.
        """
        return None

    def read(self) -> Source:
        """Read the cluster; with ``-v`` report on stderr what was read.

        Raises
        ------
        UsageError, RequestError
            As `iallocator.sources.load`.
        """
        from iallocator.deadline import Running
        from iallocator.engine import reading_for, summary
        from iallocator.sources import load

        settings = self.settings
        source = load(settings, self.positional, reading_for(settings))
        Running.has_read()
        if settings.verbose:
            tell(summary(source.cluster))
        if source.cluster.assumed_offline:
            from iallocator.sources.live.load import silence_warnings

            tell(*silence_warnings(source.cluster))
        return source

    def adjust(self, source: Source) -> None:
        """Change the cluster as options require, before anything else."""

    def asked(self, source: Source) -> Mapping[str, Any]:
        """Return the settings that the document of `source` contains."""
        return {}

    def plan(self, source: Source, settings: Any, deadline: Deadline) -> Result:
        """Return the result that `deadline` ends; `settings` are completed from tags."""
        raise NotImplementedError

    def stopped(self) -> Result | None:
        """Return what there is to show if a signal ended `find`; None for nothing."""
        return None

    def master(self, source: Source) -> str:
        """Return the name of the master node; "" if it is unknown."""
        return source.master

    def group(self) -> str:
        """Return the only group that lists of nodes and instances show; "" for all."""
        return ""

    def follower(self) -> Followed | None:
        """Return what makes the follower of an execution on a queue; None for no follower."""
        return None


def print_json(document: object, finite: bool = False) -> None:
    """Print a document for programs, with one member a line; `finite` as `Result.finite`."""
    from iallocator.wire.codec import pretty, pretty_finite

    print(pretty_finite(document) if finite else pretty(document))
