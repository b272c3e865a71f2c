"""The metadata of an object as JSON. The API server leaves out a field that is empty, and other writers state null."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tenon.kube.structs import Object
from tenon.kube.timestamps import parse_instant


def uid(obj: Object) -> str:
    """Return the UID of an object; empty if it has none."""
    return str(obj["metadata"].get("uid") or "")


def labels(obj: Object) -> Mapping[str, str]:
    """Return the labels of an object."""
    return obj["metadata"].get("labels") or {}


def annotations(obj: Object) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def finalizers(obj: Object) -> Sequence[str]:
    """Return the finalizers of an object."""
    return obj["metadata"].get("finalizers") or ()


def is_deleting(obj: Object) -> bool:
    """Whether the object's deletion has been requested."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def deletion_instant(obj: Object) -> datetime | None:
    """Return when a deletion takes effect: for a Pod the end of its grace period, otherwise the time of the request."""
    return parse_instant(obj["metadata"].get("deletionTimestamp"))
