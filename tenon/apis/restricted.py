"""Which labels users may set or require: valid names, values that nodes can have, and no reserved domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenon.apis import labels

KNOWN_VALUES: Mapping[str, tuple[str, ...]] = {
    labels.CAPACITY_TYPE: (labels.ON_DEMAND, labels.RESERVED, labels.SPOT),
    f"{labels.AWS_GROUP}/instance-tenancy": ("dedicated", "default"),
}
"""Labels that can have only these values."""
NAME_LENGTHS = r"^([^/]{1,253}/)?[^/]{1,63}$"
"""The maximum length of a label's domain and name."""
CLOSED_DOMAINS = (labels.GROUP, labels.AWS_GROUP, labels.TENON_GROUP)
OPEN_KEYS = labels.WELL_KNOWN | {labels.EC2NODECLASS}
"""Keys of reserved domains that a requirement may use."""

_PREFIXES = tuple(f"{domain}/" for domain in CLOSED_DOMAINS)
_OPEN_KEYS = [key for key in sorted(OPEN_KEYS) if key.startswith(_PREFIXES)]


def restricted_reason(key: str) -> str | None:
    """Return why a template's labels or requirements must not use this label key; None if they may.

    A reserved domain includes its subdomains. ``karpenter.sh/nodepool`` passes this check, because a NodeClaim requires
    it. Only a NodePool must not use it, because Tenon sets it from the name of the NodePool.
    """
    if key == labels.HOSTNAME:
        return f"label {key} is not allowed: a node's name is not known before its launch"
    if key in labels.REMOVED_LABELS:
        return f"label {key} is not allowed: no node carries it any more, since v1beta1"
    if key == labels.PROVISIONER:
        return f"label {key} is not allowed: it is {labels.NODEPOOL} now, and nodes of Provisioners alone carry it too"
    domain, slash, _ = key.rpartition("/")
    if not slash or key in OPEN_KEYS:
        return None
    for closed in CLOSED_DOMAINS:
        if domain == closed or domain.endswith(f".{closed}"):
            return f"label {key} is not allowed: the domain {closed} is reserved"
    return None


def cel_allowed(variable: str) -> str:
    """Return the CEL form of `restricted_reason`: an expression that is true if the key in `variable` is allowed."""
    closed = " || ".join(
        f"{variable}.startsWith('{domain}/') || {variable}.contains('.{domain}/')" for domain in CLOSED_DOMAINS
    )
    return f"{variable} != '{labels.HOSTNAME}' && ({variable} in {cel_list(_OPEN_KEYS)} || !({closed}))"


def cel_list(values: Iterable[str]) -> str:
    """Return the values as a CEL list."""
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"
