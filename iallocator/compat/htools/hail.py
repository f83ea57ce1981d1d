"""hail: answer a request of Ganeti."""

from __future__ import annotations

import os
import sys

from iallocator.compat.htools.backend import ProgramError, complain_of_file
from iallocator.errors import IallocatorError, say
from iallocator.files import read_file
from iallocator.options.settings import Settings
from iallocator.wire.codec import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.compat.htools.backend import Given

__all__ = ["run"]


def run(given: Given) -> int:
    """Print the answer to the request in the file of the command line; return the exit status.

    Raises
    ------
    ProgramError
        If the request cannot be read.
    """
    if not given.words:
        raise ProgramError("Error: This program needs an input file.")
    if len(given.words) > 1:
        raise ProgramError("Error: Only one argument is accepted (the input file)")
    path = given.words[0]
    if path != "-" and not os.path.exists(path):
        raise ProgramError(f"hail: {complain_of_file(path)}")
    settings = Settings()
    settings.compat = "hail"
    settings.no_config = True
    settings.text_data = given.text_data or ""
    settings.simulate = (given.simulate or [])[::-1]
    settings.ignore_dynu = bool(given.ignore_dynu)
    settings.ignore_soft_errors = bool(given.ignore_soft_errors)
    settings.restrict_allocation_to = given.restrict_allocation_to
    settings.n1 = "off" if given.no_capacity_checks else "strict"
    settings.mond = "" if given.mond is None else "yes" if given.mond else "no"
    settings.mond_xen = bool(given.mond_xen)
    settings.save_cluster = given.save or ""
    if given.static_kvm_node_memory is not None:
        settings.static_kvm_node_memory = given.static_kvm_node_memory
    if given.print_nodes is not None:
        settings.print_nodes = "" if given.print_nodes is True else given.print_nodes
    try:
        raw = read_file(path)
        if settings.save_cluster or settings.print_nodes is not None:
            from iallocator.commands.states import respond
        else:
            from iallocator.engine import respond
        reply = respond(raw, settings, path=path)
    except IallocatorError as error:
        raise ProgramError(f"Error: {error}") from None
    for remark in reply.remarks:
        say(remark)
    if reply.remarks:
        say("")
    sys.stdout.buffer.write(encode(reply))
    return 0
