"""Reads status conditions of objects as JSON. `tenon.apis.conditions` reads and writes those of Tenon's own kinds."""

from __future__ import annotations

from datetime import datetime

from tenon.kube.structs import Object
from tenon.kube.timestamps import parse_instant


def condition(obj: Object, type_: str) -> Object:
    """Return the condition of this type; empty if the object does not have it."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == type_), {})


def is_true(obj: Object, type_: str) -> bool:
    """Whether the condition is True."""
    return condition(obj, type_).get("status") == "True"


def true_since(obj: Object, type_: str) -> datetime | None:
    """Return when the condition became True; None if it is not True."""
    matching = condition(obj, type_)
    return parse_instant(matching.get("lastTransitionTime")) if matching.get("status") == "True" else None
