"""Multipart user data: cloud-init and nodeadm take several documents in one MIME archive and read them in order."""

from __future__ import annotations

from collections.abc import Iterable
from email import message_from_string
from email.message import Message

SHELL = 'text/x-shellscript; charset="us-ascii"'
NODE_CONFIG = "application/node.eks.aws"
_BOUNDARY = "//"

Part = tuple[str, str]
"""Content type and text."""


def parts_of(text: str) -> list[Part]:
    """Split a user's own user data into documents: the parts of a MIME archive, or the text itself.

    A text that is not an archive is a shell script if it starts with ``#!``, and a NodeConfig otherwise.
    """
    stripped = text.strip()
    if not stripped:
        return []
    if stripped.lower().startswith(("mime-version:", "content-type:")):
        archive = message_from_string(stripped)
        return [(part.get("Content-Type", SHELL), _text_of(part)) for part in archive.walk() if not part.is_multipart()]
    return [(SHELL if stripped.startswith("#!") else NODE_CONFIG, stripped)]


def join(parts: Iterable[Part]) -> str:
    """Join the documents into one archive, in order."""
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for content_type, text in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {content_type}", "", text.strip("\n"), ""]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def _text_of(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else str(part.get_payload())
