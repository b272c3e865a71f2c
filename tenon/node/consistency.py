"""Whether a Node has what its NodeClaim promises (LIF-07, CTL-14).

Plans count on the promised resources before the Node exists. A Node with clearly less of one, because of another AMI,
a kubelet setting or a failing device plugin, runs fewer pods than planned.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.resources import Resources, format_quantity

SHARE = 0.9
"""A node may have this share of a promised resource, or more. Its memory is an estimate before it exists."""
REASON = "ConsistencyCheckFailed"


def shortfalls(requested: Mapping[str, int], expected: Mapping[str, int], capacity: Resources) -> list[str]:
    """Return a sentence for each requested resource of which the Node has too little.

    Resources that no planned pod requests do not count: many instance types promise network interfaces or devices that
    a Node reports only with the right add-on.

    Args:
        requested: ``spec.resources.requests`` of the NodeClaim.
        expected: ``status.capacity`` of the NodeClaim.
        capacity: ``status.capacity`` of the Node.
    """
    return [
        _sentence(name, expected[name], capacity.get(name, 0))
        for name in sorted(requested)
        if requested[name] > 0 and capacity.get(name, 0) < SHARE * expected.get(name, 0)
    ]


def _sentence(name: str, expected: int, actual: int) -> str:
    return (
        f"expected {format_quantity(name, expected)} of resource {name}, but found {format_quantity(name, actual)} "
        f"({100 * actual / expected:.1f}% of expected)"
    )
