"""The texts that carry a trace from one part to another: W3C's traceparent, alone or with the time of the oldest pod.

They stand in annotations and messages, which users can write, so everything else is ignored.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime

from tenon.kube.timestamps import parse_instant

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class SpanId:
    """Identifies a span: its trace, itself, and whether the trace is sampled."""

    trace: int
    span: int
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """W3C's text for it."""
        return f"00-{self.trace:032x}-{self.span:016x}-{int(self.sampled):02x}"

    @classmethod
    def parse(cls, text: str) -> SpanId | None:
        """Read a traceparent. None if the text is none."""
        match = _TRACEPARENT.fullmatch(text)
        return cls(int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & 1)) if match else None


def root_of(key: str) -> SpanId:
    """The root span of the operation with this key, the same in each process and after each restart."""
    digest = hashlib.sha256(f"tenon/{key}".encode()).digest()
    return SpanId(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))


def origin_of(annotation: str) -> tuple[str, datetime | None]:
    """Read the annotation of a NodeClaim: the span that created it, and since when its oldest pod waits."""
    traceparent, _, since = annotation[:100].partition(" ")
    return (traceparent if SpanId.parse(traceparent) else ""), parse_instant(since)
