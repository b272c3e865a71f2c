"""The registry of disruption methods. To add one, add a module here, a line in `METHODS` or `moving_methods`, and its
tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis.reasons import EVERY_BUDGETED, Reason
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.drift import Drift, StaticDrift
from tenon.disruption.methods.emptiness import Emptiness
from tenon.disruption.methods.expiration import Expiration
from tenon.disruption.methods.gates import NO_GATES, DecisionGates
from tenon.disruption.methods.repair import Repair
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.situation import Situation
from tenon.scheduling.deadline import Expired, never

METHODS: tuple[Method, ...] = (Expiration(), Emptiness())
"""The methods that need no model of the cluster, so they run after each change. They are in the order in which they
choose. A node that one method takes is not offered to the next.
"""


def moving_methods(
    expired: Expired, gates: DecisionGates = NO_GATES, *, drift_expired: Expired | None = None
) -> tuple[Method, ...]:
    """Return the methods that move pods, in the order in which they choose. They stop when the time has ``expired``.

    Args:
        expired: whether the time of all methods is over.
        gates: the feature gates that they depend on.
        drift_expired: whether the part of the time is over that repair and drift may use; by default, they may use all
            of it.
    """
    return (
        Repair(deadline=lambda: drift_expired or expired, terminate_first=gates.terminate_first_repair),
        StaticDrift(terminate_first=gates.terminate_first_drift),
        Drift(deadline=lambda: drift_expired or expired, terminate_first=gates.terminate_first_drift),
        Consolidation(spot_to_spot=gates.spot_to_spot, deadline=lambda: expired),
    )


def has_cause(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Return whether a method would remove the node for the reason, whatever keeps it."""
    return any(method.reason is reason and method.cause(node, situation) for method in _ALL)


def check_registry(methods: Sequence[Method], moving: Sequence[Method]) -> None:
    """Refuse a registry that forgets a reason, or has a method where passes do not run it.

    Raises:
        TypeError: a reason has no method, or a method has a reason without traits, or is in the wrong registry.
    """
    for method in (*methods, *moving):
        if method.reason.traits.budgeted == "never":
            raise TypeError(
                f"the reason of method {method.name} has no traits of its own: state them in tenon/apis/reasons.py"
            )
        if method.reason.traits.moves_pods is not any(method is other for other in moving):
            raise TypeError(
                f"method {method.name} is in the wrong registry: methods that move pods belong into moving_methods"
            )
    if unused := set(EVERY_BUDGETED) - {method.reason for method in (*methods, *moving)}:
        raise TypeError(f"no method has the reason {min(unused)}: register one in METHODS or moving_methods")


_MOVING_METHODS = moving_methods(never)
check_registry(METHODS, _MOVING_METHODS)
_ALL = (*METHODS, *_MOVING_METHODS)
