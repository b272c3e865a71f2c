"""What the API server answers to a list and to a watch; the objects in it stay bytes until they are decoded."""

from __future__ import annotations

from msgspec import Raw, field

from tenon.kube.structs import Metadata, Wire


class AnyObject(Wire):
    metadata: Metadata


class ListMetadata(Wire):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class Page(Wire):
    """One page of a list, its items still as bytes."""

    metadata: ListMetadata
    items: list[Raw] | None = None


class WatchEvent(Wire):
    """One line of a watch, its object still as bytes."""

    type: str
    object: Raw


class Status(Wire):
    """What an ERROR event carries."""

    code: int = 0
    reason: str = ""
    message: str = ""
