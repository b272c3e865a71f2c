"""Why a NodeClaim is bought: a sentence for each thing that is to say, by name, so that no reader parses sentences.

Its NodeClaim carries it as JSON, and the record repeats it.
"""

from typing import Self

from pydantic import ValidationError

from tenon.messages.base import Message

MAX_LINES, MAX_LINE = 8, 300
"""Lines, and bytes per line, that a workflow accepts: it carries them through each of its runs."""


class Explanation(Message):
    """Why a NodeClaim is bought. What does not apply is empty."""

    occasion: str = ""
    """Why it is bought, if not for pods, in a clause that completes "it was bought for"."""
    pods: str = ""
    """How many pods it is bought for, and the first of them."""
    headroom: str = ""
    """For how many pods of CapacityBuffers it has room."""
    types: str = ""
    """The cheapest available types that fit."""
    choice: str = ""
    """Why this type, and which alternatives were rejected."""
    price: str = ""
    """What it costs, and which offering that is."""
    others: tuple[str, ...] = ()
    """What else is to say, such as what its disruption command does."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the explanation in an annotation. People may edit those, so other text is kept as lines."""
        try:
            explanation = cls.model_validate_json(text or "{}")
        except ValidationError:
            explanation = cls(others=tuple(text.splitlines()))
        return explanation.bounded()

    def bounded(self) -> Self:
        """Return the explanation with no more and no longer lines than a workflow accepts."""
        sentences = {name: _cut(text) for name, text in self if isinstance(text, str)}
        room = max(0, MAX_LINES - sum(map(bool, sentences.values())))
        return self.model_copy(update={**sentences, "others": tuple(map(_cut, self.others[:room]))})

    def annotation(self) -> str:
        """Return the JSON for a NodeClaim, with a line for each sentence: people read it with kubectl."""
        return self.bounded().model_dump_json(exclude_defaults=True, indent=1)

    @property
    def lines(self) -> tuple[str, ...]:
        """All sentences, in the order in which people read them."""
        sentences = (self.occasion, self.pods, self.headroom, self.types, self.choice, self.price, *self.others)
        return tuple(filter(None, sentences))

    @property
    def purpose(self) -> str:
        """What it is bought for: the clause after "it was bought for"; empty if that is not known."""
        return self.occasion or self.pods or self.headroom


def _cut(line: str) -> str:
    line = " ".join(line.split())
    if len(line.encode()) <= MAX_LINE:
        return line
    return line.encode()[: MAX_LINE - len("…".encode())].decode(errors="ignore") + "…"
