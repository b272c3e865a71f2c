"""Multipart user data: cloud-init and nodeadm take several documents in one MIME archive and read them in order."""

from __future__ import annotations

import quopri
from collections.abc import Iterable
from email import message_from_bytes
from email.message import Message
from typing import Any

import yaml

SHELL = 'text/x-shellscript; charset="us-ascii"'
NODE_CONFIG = "application/node.eks.aws"
_BOUNDARY = "//"

Part = tuple[str, str]
"""Content type and text."""


def parts_of(text: str) -> list[Part]:
    """Split a user's own user data into documents: the parts of a MIME archive, or the text itself.

    A text that is not an archive is a NodeConfig if it is a YAML mapping with the fields of an object, and a shell
    script otherwise.
    """
    stripped = text.strip()
    if not stripped:
        return []
    if stripped.lower().startswith(("mime-version:", "content-type:")):
        archive = message_from_bytes(stripped.encode())
        parts = [
            (part.get("Content-Type", SHELL), _text_of(part)) for part in archive.walk() if not part.is_multipart()
        ]
        # An archive that ends with a boundary, not with the closing one, has an empty part behind it.
        return [(kind, content) for kind, content in parts if content.strip()]
    return [(NODE_CONFIG if _is_object(stripped) else SHELL, stripped)]


def join(parts: Iterable[Part]) -> str:
    """Join the documents into one archive, in order.

    A part with letters beyond ASCII states its encoding, because cloud-init replaces such letters otherwise.
    """
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for content_type, text in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {content_type}"]
        body = text.strip("\n")
        if not body.isascii():
            lines.append("Content-Transfer-Encoding: quoted-printable")
            body = quopri.encodestring(body.encode()).decode()
        lines += ["", body, ""]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def _is_object(text: str) -> bool:
    """Whether the text is a Kubernetes object. A line of shell with a colon is a YAML mapping too."""
    if text.startswith("#!"):
        return False
    try:
        document = first_document(text)
    except yaml.YAMLError:
        return False
    return isinstance(document, dict) and not document.keys().isdisjoint({"apiVersion", "kind", "spec"})


def first_document(text: str) -> Any:
    """Return the first YAML document, the only one that nodeadm reads.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    return next(yaml.safe_load_all(text), None)


def _text_of(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else str(part.get_payload())
