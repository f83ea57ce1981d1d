"""Find the full names for short names, and for names with small errors.

A name can be shortened to its beginning up to a dot if no other name has the same beginning. htools
do so, too: ``-O node1``.
"""

from __future__ import annotations

from iallocator.errors import FEW_NAMES, NotFoundError, cut
from iallocator.tolerances import SPELLING_SIMILARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "common_domain",
    "domain_of",
    "domains_of",
    "guesses",
    "meant",
    "short_names",
    "whole_name",
    "whole_names",
]


def whole_names(words: Iterable[str], known: Iterable[str], option: str, what: str) -> list[str]:
    """Return the full names in `known` of the short names `words`, each once, in their order.

    `option` and `what` (``node``, ``instance``) are for the message.

    Raises
    ------
    NotFoundError
        If a word means no name, or several.
    """
    known = list(known)
    return list(dict.fromkeys(whole_name(word, known, option, what) for word in words))


def whole_name(word: str, known: Sequence[str], option: str, what: str) -> str:
    """Return the full name in `known` of the short name `word`.

    `option` and `what` (``node``, ``instance``) are for the message.

    Raises
    ------
    NotFoundError
        If `word` means no name, or several.
    """
    matches = meant(word, known)
    if len(matches) == 1:
        return matches[0]
    if matches:
        some = ", ".join(matches[:FEW_NAMES]) + (", ..." if len(matches) > FEW_NAMES else "")
        raise NotFoundError(f"{option}: {cut(word)} may be any of the {what}s {some}")
    raise NotFoundError(f"{option}: unknown {what} {cut(word)}{guesses(word, known)}")


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Return the possible full names of `word` in `known`: the word itself, or longer names."""
    known = list(known)
    return [word] if word in known else [one for one in known if one.startswith(f"{word}.")]


def short_names(known: Iterable[str]) -> dict[str, list[str]]:
    """Return each beginning of a name up to a dot -> the names in `known` that begin with it."""
    by_short_name: dict[str, list[str]] = {}
    for name in known:
        labels = name.split(".")
        for count in range(1, len(labels)):
            by_short_name.setdefault(".".join(labels[:count]), []).append(name)
    return by_short_name


def guesses(word: str, known: Iterable[str]) -> str:
    """Return ``(did you mean X?)`` with a blank before it; "" if no name in `known` is similar.

    A name is also similar if its part before the first dot is.
    """
    from difflib import get_close_matches

    by_word: dict[str, str] = {}
    for name in known:
        by_word.setdefault(name.partition(".")[0], name)
        by_word[name] = name
    close = get_close_matches(cut(word), list(by_word), 2 * FEW_NAMES, SPELLING_SIMILARITY)
    near_names = list(dict.fromkeys(by_word[one] for one in close))[:FEW_NAMES]
    words = " or ".join(filter(None, (", ".join(near_names[:-1]), *near_names[-1:])))
    return f" (did you mean {words}?)" if near_names else ""


def domain_of(names: Iterable[str]) -> str:
    """Return the common part of all `names` from their first dot on (``.example.com``), or ""."""
    domains = {name.partition(".")[2] for name in names}
    return "." + domains.pop() if len(domains) == 1 and "" not in domains else ""


def domains_of(*kinds: Iterable[str]) -> list[str]:
    """Return the common domain of the names of each kind (nodes, instances), longest first.

    Kinds without a common domain are left out.
    """
    domains = {domain_of(names) for names in kinds} - {""}
    return sorted(domains, key=lambda domain: (-len(domain), domain))


def common_domain(names: Sequence[str]) -> str:
    """Return the end of all `names`, from a dot on; "" if they have no end in common."""
    ends = [name.split(".")[1:] for name in names]
    common: list[str] = []
    for labels in zip(*(reversed(end) for end in ends)):
        if len(set(labels)) > 1:
            break
        common.insert(0, labels[0])
    return "".join(f".{label}" for label in common)
