"""The API server's responses to lists and watches. The objects in them stay bytes until they are decoded."""

from __future__ import annotations

from msgspec import Raw, field

from tenon.kube.structs import Metadata, Wire


class AnyObject(Wire):
    metadata: Metadata


class ListMetadata(Wire):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class Page(Wire):
    """One page of a list. Its items are still bytes."""

    metadata: ListMetadata
    items: list[Raw] | None = None


class WatchEvent(Wire):
    """One line of a watch. Its object is still bytes."""

    type: str
    object: Raw


class Status(Wire):
    """The object of an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
