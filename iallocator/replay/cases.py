"""Find stored requests and commands (cases), and the files of each.

==================  =====================  ==========  =============  =============  ============
what is read        response               args        on stderr      on stdout      exit status
==================  =====================  ==========  =============  =============  ============
request.json        response.json          args        stderr         stdout         status
cluster.data        response.json          args        stderr         stdout         status
args                response.json          args        stderr         stdout         status
NAME.request.json   NAME.response.json     NAME.args   NAME.stderr    NAME.stdout    NAME.status
NAME.cluster.data   NAME.response.json     NAME.args   NAME.stderr    NAME.stdout    NAME.status
NAME.json           NAME.response.json     NAME.args   NAME.stderr    NAME.stdout    NAME.status
==================  =====================  ==========  =============  =============  ============

A captured call (see `iallocator.calls`) has ``NUMBER.request.json.gz``, ``NUMBER.response.json.gz``
and ``NUMBER.args``, and is named ``FOLDER#7``. ``conf`` or ``NAME.conf`` beside a request is its
configuration file.

All files except the one that is read may be absent. A case of the last form must be named. The
others are found in folders; of several forms in a folder, the first one counts.

If the first word of ``args`` is a command, it is run in the folder of the case, with
``request.json`` as its file, or ``cluster.data`` as its ``--text-data``. Without either file,
``args`` has all arguments. After the word ``htools``, the name of a program of htools and its
options follow. With ``--json`` among the arguments, the output is ``response.json``, otherwise the
text ``stdout``. ``status`` is absent for 0.
"""

from __future__ import annotations

import os
import shlex

from iallocator.calls import layout
from iallocator.errors import UsageError
from iallocator.files import read_file
from iallocator.light import ValueObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Case", "case_of", "find_cases"]

CASE_REQUEST, CASE_CLUSTER, CASE_ARGS, CASE_RESPONSE = (
    "request.json",
    "cluster.data",
    "args",
    "response.json",
)


class Case(ValueObject):
    """One stored request or command: its name, and the paths of its files.

    `request` is the path of the file that is read: the request, the cluster as text, or `args`.
    """

    name: str
    request: str
    response: str
    args: str
    stderr: str
    stdout: str
    status: str
    conf: str = ""

    @property
    def configured(self) -> bool:
        """Return whether the case has a configuration file; that of the machine is never used."""
        return os.path.exists(self.conf)

    @property
    def captured(self) -> bool:
        """Return whether the case is a captured call, so that its files must not be changed."""
        return self.request.endswith("." + layout.CALL_REQUEST)

    def source(self) -> list[str]:
        """Return the arguments that name the file that is read, for a run in the case's folder."""
        if self.request == self.args:
            return []
        name = os.path.basename(self.request)
        return ["--text-data", name] if name.endswith(CASE_CLUSTER) else [name]

    def options(self) -> list[str]:
        """Return the options stored with the request: one a line, or as words of a shell.

        Raises
        ------
        UsageError
            If the quotes in the file are invalid.
        """
        try:
            return shlex.split(read_text(self.args) or "", comments=True)
        except ValueError as error:
            raise UsageError(f"{self.args}: {error}") from None


def find_cases(paths: Sequence[str]) -> list[Case]:
    """Return the cases in `paths`, each once; those of a folder in the order of their names.

    Folders are searched recursively. A stored response among `paths` is ignored, so that ``*.json``
    can be given.

    Raises
    ------
    UsageError
        If a path does not exist, or no request is found.
    """
    by_name: dict[str, Case] = {}
    for path in map(layout.request_path, paths):
        if not os.path.exists(path):
            raise UsageError(f"{path}: No such file or directory")
        requests = list(_requests_in(path)) if os.path.isdir(path) else [path]
        if not requests:
            raise UsageError(f"{path}: no request.json or *.request.json in it, nor a command")
        for request in requests:
            name = os.path.basename(request)
            if not (name == CASE_RESPONSE or name.endswith("." + CASE_RESPONSE)):
                by_name.setdefault(os.path.realpath(request), case_of(request))
    if not by_name:
        raise UsageError(f"{' '.join(paths)}: no requests, only responses")
    return list(by_name.values())


def _requests_in(folder: str) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if not os.path.isfile(os.path.join(where, name)):
                continue  # reading a pipe would block
            if name == CASE_REQUEST or name.endswith(
                ("." + CASE_REQUEST, "." + layout.CALL_REQUEST)
            ):
                yield os.path.join(where, name)
            elif name == CASE_CLUSTER or name.endswith("." + CASE_CLUSTER):
                if name.removesuffix(CASE_CLUSTER) + CASE_REQUEST not in files:
                    yield os.path.join(where, name)
            elif name == CASE_ARGS and not {CASE_REQUEST, CASE_CLUSTER} & set(files):
                yield os.path.join(where, name)


def case_of(request: str) -> Case:
    """Return the case of a request in the file `request`."""
    folder, name = os.path.split(request)
    if name.endswith("." + layout.CALL_REQUEST):
        stem = name.removesuffix(layout.CALL_REQUEST)
        path = os.path.join(folder, stem)
        shown = f"{folder or '.'}#{int(stem[:-1])}" if stem[:-1].isdecimal() else request
        texts = [path + kind for kind in ("stderr", "stdout", "status", layout.CONF)]
        return Case(shown, request, path + layout.CALL_RESPONSE, path + layout.CALL_ARGS, *texts)
    for known in (CASE_REQUEST, CASE_CLUSTER, CASE_ARGS):
        if name == known:
            stem, shown = "", folder or "."
            break
        if known != CASE_ARGS and name.endswith("." + known):
            stem, shown = name.removesuffix(known), request.removesuffix("." + known)
            break
    else:
        stem, shown = name.removesuffix(".json") + ".", request

    def beside(what: str) -> str:
        return os.path.join(folder, stem + what)

    return Case(
        shown, request, beside(CASE_RESPONSE), beside(CASE_ARGS), beside("stderr"),
        beside("stdout"), beside("status"), beside("conf"),
    )  # fmt: skip


def read_text(path: str) -> str | None:
    """Return the text of the file at `path`; None if the file does not exist.

    Raises
    ------
    UsageError
        If the file cannot be read, or is not text.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path}: not a file")
    try:
        if path.endswith(".gz"):
            return read_file(path).decode() if os.path.exists(path) else None
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: invalid UTF-8: {error}") from None
