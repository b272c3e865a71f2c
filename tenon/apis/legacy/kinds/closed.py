"""Labels that users of v1beta1 could not set or require: more domains were closed than in v1."""

from __future__ import annotations

from tenon.apis import labels
from tenon.apis.restricted import cel_allowed, restricted_reason

CLOSED = ("kubernetes.io", "k8s.io")
EXCEPTIONS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
"""Domains below the closed ones that were open, each with its sub-domains."""


def _in(key: str, domains: tuple[str, ...]) -> bool:
    return any(f".{domain}/" in f".{key}" for domain in domains)


_OPEN_KEYS = sorted(
    key for key in (*labels.WELL_KNOWN, *labels.ALIASES) if _in(key, CLOSED) and not _in(key, EXCEPTIONS)
)


def closed_reason(key: str) -> str | None:
    """Why this label key could not be used in v1beta1; None when it could."""
    if (reason := restricted_reason(key)) is not None:
        return reason
    if key in _OPEN_KEYS or _in(key, EXCEPTIONS) or not _in(key, CLOSED):
        return None
    return f"label {key} is not allowed in v1beta1: the domain {key.rpartition('/')[0]} is reserved"


def cel_open(variable: str) -> str:
    """A CEL expression that is true when the key in `variable` could be used (the reading of `closed_reason`)."""
    listed = ", ".join(f"'{key}'" for key in _OPEN_KEYS)
    return (
        f"{cel_allowed(variable)} && ({variable} in [{listed}] || {_cel_in(variable, EXCEPTIONS)} || "
        f"!({_cel_in(variable, CLOSED)}))"
    )


def _cel_in(variable: str, domains: tuple[str, ...]) -> str:
    return " || ".join(f"{variable}.startsWith('{domain}/') || {variable}.contains('.{domain}/')" for domain in domains)
