"""Labels that users could not set or require in v1beta1, which reserved more domains than v1."""

from __future__ import annotations

from tenon.apis import labels
from tenon.apis.restricted import cel_allowed, restricted_reason

CLOSED = ("kubernetes.io", "k8s.io")
EXCEPTIONS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
"""Domains below the reserved ones that users could use, each with its subdomains."""


def _in(key: str, domains: tuple[str, ...]) -> bool:
    return any(f".{domain}/" in f".{key}" for domain in domains)


_OPEN_KEYS = sorted(
    key for key in (*labels.WELL_KNOWN, *labels.ALIASES) if _in(key, CLOSED) and not _in(key, EXCEPTIONS)
)


def closed_reason(key: str) -> str | None:
    """Return why v1beta1 rejects this label key; None if it accepts the key."""
    if (reason := restricted_reason(key)) is not None:
        return reason
    if key in _OPEN_KEYS or _in(key, EXCEPTIONS) or not _in(key, CLOSED):
        return None
    return f"label {key} is not allowed in v1beta1: the domain {key.rpartition('/')[0]} is reserved"


def cel_open(variable: str) -> str:
    """Return the CEL form of `closed_reason`: an expression that is true if v1beta1 accepts the key in `variable`."""
    listed = ", ".join(f"'{key}'" for key in _OPEN_KEYS)
    return (
        f"{cel_allowed(variable)} && ({variable} in [{listed}] || {_cel_in(variable, EXCEPTIONS)} || "
        f"!({_cel_in(variable, CLOSED)}))"
    )


def _cel_in(variable: str, domains: tuple[str, ...]) -> str:
    return " || ".join(f"{variable}.startsWith('{domain}/') || {variable}.contains('.{domain}/')" for domain in domains)
