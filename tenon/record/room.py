"""Bounds what one entry names, so that the entry of a plan for 100,000 pods is still one short line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from tenon.kube.pool_reason_json import encode
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.explanation import Explanation
from tenon.record.entries import MAX_LISTED
from tenon.sentences import shortened

ROOM = 400_000
"""Characters of names and sentences in one entry. With all else that it has, its line stays far below `MAX_LINE`."""
MAX_REASON = 500
"""Characters of a sentence of which an entry has many."""
_QUOTES = 4
"""Characters that JSON needs around each text."""


class EntryRoom:
    """How many more characters the lists of an entry may have. What comes first is named first."""

    def __init__(self, characters: int = ROOM) -> None:
        self._characters = characters

    def names(self, names: Iterable[str]) -> list[str]:
        """Return the first names for which there is room, at most `MAX_LISTED`."""
        fitting: list[str] = []
        for name in names:
            if len(fitting) == MAX_LISTED or not self._take(name):
                break
            fitting.append(name)
        return fitting

    def reasons(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Return the first names with their sentences for which there is room, at most `MAX_LISTED`."""
        fitting: dict[str, str] = {}
        for name, reason in reasons.items():
            text = shortened(reason, MAX_REASON)
            if len(fitting) == MAX_LISTED or not self._take(name, text):
                break
            fitting[name] = text
        return fitting

    def pool_reasons(self, reasons: Mapping[str, NoPlace]) -> dict[str, NoPlace]:
        """Return the first pods with the reasons for which there is room, at most `MAX_LISTED`."""
        fitting: dict[str, NoPlace] = {}
        for name, reason in islice(reasons.items(), MAX_LISTED):
            short = reason.shortened(MAX_REASON)
            if not self._take(name, encode(short)):
                break
            fitting[name] = short
        return fitting

    def text(self, text: str, most: int = 2 * MAX_REASON) -> str:
        """Return the text, shortened to so many characters, or nothing if there is no room for it."""
        short = shortened(text, most)
        return short if self._take(short) else ""

    def explanation(self, explanation: Explanation) -> Explanation:
        """Return the explanation, or an empty one if there is no room for it."""
        return explanation if self._take(*explanation.lines) else Explanation()

    def _take(self, *texts: str) -> bool:
        size = sum(len(text) + _QUOTES for text in texts)
        if size > self._characters:
            return False
        self._characters -= size
        return True
