"""What the judge says: one line for each thing that a plan breaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken, and where."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.text}"
