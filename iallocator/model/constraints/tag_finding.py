"""Something about a tag that somebody should know."""

from __future__ import annotations

__all__ = ["TagFinding"]


class TagFinding:
    """Something about a tag that somebody should know.

    Attributes
    ----------
    kind:
        ``unknown``, ``contradiction`` or ``lacking``.
    owner:
        Who has it, in words: ``instance web``, ``the cluster``.
    tag:
        The whole tag.
    text:
        What is the matter with it, in words.
    """

    __slots__ = ("kind", "owner", "tag", "text")

    def __init__(self, kind: str, owner: str, tag: str, text: str) -> None:
        self.kind = kind
        self.owner = owner
        self.tag = tag
        self.text = text

    def __str__(self) -> str:
        return f"{self.owner}: tag {self.tag} {self.text}"

    def document(self) -> dict[str, str]:
        """As plain data."""
        return {"kind": self.kind, "owner": self.owner, "tag": self.tag, "text": self.text}
