"""What a NodePool says about disruption, in its spec and its annotations, and what DisruptionFreezes say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TypeVar

from tenon.apis import labels
from tenon.apis.approvals import DEFAULT_WITHIN, EVERY_REASON, ApprovalRule, read_approval_rules, read_approve_within
from tenon.apis.boolean_annotations import read_boolean
from tenon.apis.consolidation_limits import LeastSaving, read_least_saving, read_rest
from tenon.apis.disruption_windows import DisruptionWindow, read_windows
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.expiration import expires_within_budgets
from tenon.apis.nodepool import Budget, ConsolidationPolicy, NodePool
from tenon.disruption.freezes.freeze import Freeze, freezes_for

ValueT = TypeVar("ValueT")
AbsentT = TypeVar("AbsentT")
BrokenT = TypeVar("BrokenT")

_TOO_MUCH = LeastSaving(dollars=inf)
_TOO_LONG = timedelta(days=36500)


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """What a NodePool says about disruption. ``consolidate_after`` is None for Never."""

    name: str
    consolidate_after: timedelta | None
    budgets: tuple[Budget, ...] = (Budget(),)
    consolidation_policy: ConsolidationPolicy = "WhenEmptyOrUnderutilized"
    replicas: int | None = None
    """The number of nodes of a static pool; None for a pool that follows its pods."""
    least_saving: LeastSaving | None = None
    """What a consolidation must save at least (WSH-02); None if the NodePool does not say."""
    rest_after_move: timedelta = timedelta()
    """How long consolidation leaves alone a node that was created for a consolidation (WSH-01)."""
    windows: tuple[DisruptionWindow, ...] | None = ()
    """The only times at which its nodes may be disrupted (WSH-14): always if empty, never if None."""
    takes_pods_early: bool = False
    """Consolidation moves pods to its nodes although consolidateAfter is not over for them."""
    expire_within_budgets: bool = False
    """Expired nodes wait for the budgets (WSH-28). Without it, their workflows remove them at once."""
    approvals: tuple[ApprovalRule, ...] = ()
    """Which of its commands wait until a person approves them."""
    approve_within: timedelta = DEFAULT_WITHIN
    """How long they wait."""
    freezes: tuple[Freeze, ...] = ()
    """The DisruptionFreezes that are meant for it, whether or not they hold now."""

    @property
    def keeps_nodes_with_pods(self) -> bool:
        """Whether consolidation removes only empty nodes."""
        return self.consolidation_policy == "WhenEmpty"


def policies_of(pools: Iterable[NodePool], freezes: Sequence[DisruptionFreeze] = ()) -> dict[str, PoolPolicy]:
    """Return the policy of each NodePool by its name."""
    return {pool.metadata.name: policy_of(pool, freezes) for pool in pools}


def policy_of(pool: NodePool, freezes: Sequence[DisruptionFreeze] = ()) -> PoolPolicy:
    """Return the policy of a NodePool. A static pool keeps its nodes whether or not they are empty.

    ``freezes``: all DisruptionFreezes of the cluster.
    """
    disruption = pool.spec.disruption
    seconds = None if pool.spec.replicas is not None else disruption.consolidate_after.seconds
    return PoolPolicy(
        name=pool.metadata.name,
        consolidate_after=None if seconds is None else timedelta(seconds=seconds),
        budgets=tuple(disruption.budgets),
        consolidation_policy=disruption.consolidation_policy,
        replicas=pool.spec.replicas,
        least_saving=_annotated(pool, labels.LEAST_SAVING, read_least_saving, absent=None, broken=_TOO_MUCH),
        takes_pods_early=_annotated(pool, labels.TAKES_PODS_EARLY, read_boolean, absent=False, broken=False),
        rest_after_move=_annotated(pool, labels.REST_AFTER_MOVE, read_rest, absent=timedelta(), broken=_TOO_LONG),
        windows=_annotated(pool, labels.DISRUPTION_WINDOWS, read_windows, absent=(), broken=None),
        expire_within_budgets=expires_within_budgets(pool.metadata.annotations),
        approvals=_annotated(pool, labels.APPROVE, read_approval_rules, absent=(), broken=EVERY_REASON),
        approve_within=_annotated(
            pool, labels.APPROVE_WITHIN, read_approve_within, absent=DEFAULT_WITHIN, broken=DEFAULT_WITHIN
        ),
        freezes=freezes_for(freezes, pool.metadata.name, pool.metadata.labels),
    )


def _annotated(
    pool: NodePool, key: str, read: Callable[[str], ValueT], *, absent: AbsentT, broken: BrokenT
) -> ValueT | AbsentT | BrokenT:
    text = pool.metadata.annotations.get(key)
    if text is None:
        return absent
    try:
        return read(text)
    except ValueError:  # the NodePool's condition ValidationSucceeded says why
        return broken
