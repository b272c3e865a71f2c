"""Why a pod has no place as JSON, for the annotation of an event: who reads the event needs not take its text apart."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter, ValidationError

from tenon.kube.pool_reasons import NoPlace


@cache
def _reasons() -> TypeAdapter[NoPlace]:
    return TypeAdapter(NoPlace)


def encode(reason: NoPlace) -> str:
    """Return the reason as JSON, without what is as usual."""
    return _reasons().dump_json(reason, exclude_defaults=True).decode()


def decode(text: object) -> NoPlace | None:
    """Return the reason that `encode` wrote; None if the text is anything else, which anybody may have written."""
    try:
        reason = _reasons().validate_json(text) if isinstance(text, str) else None
        str(reason)  # overflows if its time cannot be said in UTC
    except (ValidationError, OverflowError):
        return None
    has_obstacles = reason is not None and reason.clauses and all(clause.obstacles for clause in reason.clauses)
    return reason if has_obstacles else None
