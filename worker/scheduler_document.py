"""SCHEDULER_CONFIG: a document, or the path of a file that holds one, reduced to JSON in one line.

A file is read once, at the start, so that all processes of a worker use the same configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenon.kube.scheduler_config import NOTHING, DefaultSpread, scheduler_config
from tenon.manifests.yaml_scalars import UnreadableDocumentError
from tenon.manifests.yaml_values import read_documents

MAX_SIZE = 2**20
"""Maximum size of the file, in bytes."""


def scheduler_document(value: str) -> str:
    """The document that the setting contains, or whose path it gives, as JSON. Empty if the setting is empty.

    Raises:
        ValueError: the document cannot be read, or kube-scheduler would reject it.
    """
    if not value.strip():
        return ""
    document = _document(value)
    if not isinstance(document, Mapping):
        document = _document(_text(value.strip()))
    scheduler_config(document)
    return json.dumps(document, separators=(",", ":"))


def default_spread(text: str) -> DefaultSpread:
    """The topology spread for pods that state none, from the JSON that `scheduler_document` returns."""
    return scheduler_config(json.loads(text)) if text else NOTHING


def _document(text: str) -> Any:
    documents = [value for _, value in read_documents(text) if value is not None]
    for value in documents:
        if isinstance(value, UnreadableDocumentError):
            raise ValueError(str(value))
    if len(documents) > 1:
        raise ValueError(f"it holds {len(documents)} documents: keep one")
    return documents[0] if documents else None


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"it is neither a document nor a file that can be read ({why})") from None
    if len(raw) > MAX_SIZE:
        raise ValueError(f"the file is larger than {MAX_SIZE // 2**20} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not UTF-8 text: byte {error.start} cannot be read") from None
