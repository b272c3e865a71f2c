"""Compares each purchase of another controller with what Tenon's engine buys for the same pods.

A batch is the NodeClaims that were created shortly after each other, and the pods that waited when the last one was
created. NodeClaims do not say which pods they were bought for, so two batches that overlap count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.kube.pod import Pod
from tenon.resources import PODS
from tenon.scheduling.model import Plan
from tenon.sentences import counted, listed
from tenon.shadow.nodes import OfferingPrices
from tenon.shadow.purchases import unplaced_reasons

IDLE_SECONDS, LONGEST_SECONDS = 10.0, 60.0
"""A batch ends when no NodeClaim was created for the first time, or after the second."""
SETTLE_SECONDS = 180.0
"""How long a batch waits for its pods to run and its NodeClaims to be launched, before it is compared as it is."""
MAX_NAMES = 20
"""The number of pods that a comparison names. The others are counted."""


@dataclass(frozen=True, slots=True)
class RealClaim:
    """A NodeClaim of the cluster."""

    name: str
    pool: str
    created: float
    offering: tuple[str, str, str]
    """Instance type, zone and capacity type; empty texts before the launch."""
    requested_pods: int = 0
    """How many pods it was created for, with those of DaemonSets; 0 if it does not say."""

    @property
    def launched(self) -> bool:
        """Whether its instance type is known."""
        return bool(self.offering[0])


@dataclass(frozen=True, slots=True)
class Bought:
    """Nodes of one offering that a purchase has."""

    instance_type: str
    zone: str
    capacity_type: str
    count: int
    price: float
    """Dollars an hour of one; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Purchases:
    """What one of the two bought for a batch."""

    nodes: Sequence[Bought]
    unplaced: Mapping[str, str] = field(default_factory=dict)
    """By key of a pod without a node, why; at most `MAX_NAMES`."""
    unplaced_count: int = 0
    on_existing: int = 0
    """Pods that go to nodes that exist already."""

    @property
    def price(self) -> float:
        """Dollars an hour."""
        return sum(bought.count * bought.price for bought in self.nodes)

    @property
    def count(self) -> int:
        """The number of nodes."""
        return sum(bought.count for bought in self.nodes)

    @property
    def is_priced(self) -> bool:
        """Whether the price of every node is known."""
        return all(bought.price for bought in self.nodes)


@dataclass(frozen=True, slots=True)
class BatchComparison:
    """A batch, and what both bought for it."""

    at: float
    """When the first NodeClaim was created, in seconds since the epoch."""
    pods: int
    workloads: Sequence[str]
    """The workloads of the pods with their number, such as ``shop/Deployment/web x12``."""
    theirs: Purchases
    ours: Purchases
    other_pods: int = 0
    """Pods that the other controller's nodes are for and that did not wait: it moves them from nodes that leave."""

    @property
    def difference(self) -> float:
        """What Tenon would save, in dollars an hour; negative if it would pay more."""
        return self.theirs.price - self.ours.price

    @property
    def is_fair(self) -> bool:
        """Whether the prices can be compared: all are known, and both bought for the same pods and placed as many."""
        same = self.theirs.unplaced_count == self.ours.unplaced_count
        return same and not self.other_pods and self.theirs.is_priced and self.ours.is_priced


@dataclass(slots=True)
class _Open:
    begun: float
    last: float
    claims: dict[str, RealClaim] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    ours: Purchases | None = None
    daemon_pods: int | None = None
    """Pods of DaemonSets on a new node; None if Tenon buys none."""


PlaceOf = Callable[[str], str | None]
Planner = Callable[[Sequence[Pod], frozenset[str]], Plan]
"""Plans for these pods on the real nodes without those of these NodeClaims."""


@dataclass(slots=True)
class Batches:
    """Follows the purchases of another controller."""

    known_claims: dict[str, float] = field(default_factory=dict)
    """The NodeClaims that are of an earlier batch or older than the watch, with their creation."""
    served: set[str] = field(default_factory=set)
    """UIDs of pods of earlier batches, so that no pod is in two."""
    replacements: int = 0
    """NodeClaims that were created while no pod waited: for other nodes, not for pods."""
    _recent: dict[str, tuple[Pod, float]] = field(default_factory=dict)
    """By UID, the pods that waited until a moment ago. kube-scheduler may bind them before their NodeClaim is seen."""
    _open: _Open | None = None
    _settling: list[_Open] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether a batch may end with the next check, which then plans."""
        return self._open is not None

    def observe(
        self,
        now: float,
        claims: Mapping[str, RealClaim],
        pending: Iterable[Pod],
        place_of: PlaceOf,
        plan: Planner,
        prices: OfferingPrices,
    ) -> list[BatchComparison]:
        """Take note of the cluster as it is. Return the batches that can be compared now.

        Args:
            now: seconds since the epoch.
            claims: all NodeClaims of NodePools, by name.
            pending: the pods that wait for capacity.
            place_of: returns the Node of a pod by its UID; empty if it has none, None if the pod does not exist.
            plan: asks the engine.
            prices: of offerings.
        """
        for pod in pending:
            if pod.uid not in self.served:
                self._recent[pod.uid] = pod, now
        new = [claim for name, claim in claims.items() if name not in self.known_claims]
        for claim in new:
            self.known_claims[claim.name] = claim.created
        if new and self._open is None:
            self._open = _Open(min(claim.created for claim in new), now)
        batch = self._open
        if batch is not None:
            if new:  # later pods are of the next batch, even if it follows at once
                batch.last = now
                batch.claims |= {claim.name: claim for claim in new}
                batch.pods |= {uid: pod for uid, (pod, _) in self._recent.items()}
            if now - batch.last >= IDLE_SECONDS or now - batch.begun >= LONGEST_SECONDS:
                self._close(batch, plan)
        done = [batch for batch in self._settling if _is_settled(batch, claims, place_of, now)]
        self._settling = [batch for batch in self._settling if batch not in done]
        comparisons = [_compared(batch, claims, place_of, prices) for batch in done]
        self._forget(now, claims, place_of)
        return comparisons

    def _close(self, batch: _Open, plan: Planner) -> None:
        self._open = None
        if not batch.pods:
            self.replacements += len(batch.claims)
            return
        pods = list(batch.pods.values())
        unsettled = {name for other in (*self._settling, batch) for name in other.claims}
        answer = plan(pods, frozenset(unsettled))
        batch.ours = _ours(answer)
        batch.daemon_pods = max((claim.requests[PODS] - len(claim.pods) for claim in answer.claims), default=None)
        self.served |= batch.pods.keys()
        for uid in batch.pods:
            self._recent.pop(uid, None)
        self._settling.append(batch)

    def _forget(self, now: float, claims: Mapping[str, RealClaim], place_of: PlaceOf) -> None:
        """Keep only what exists, so that memory does not grow with time."""
        self.served = {uid for uid in self.served if place_of(uid) is not None}
        self._recent = {uid: (pod, since) for uid, (pod, since) in self._recent.items() if now - since < IDLE_SECONDS}
        self.known_claims = {name: created for name, created in self.known_claims.items() if name in claims}


def _ours(plan: Plan) -> Purchases:
    counts = Counter(
        (claim.offering.instance_type, claim.offering.zone, claim.offering.capacity_type, claim.price)
        for claim in plan.claims
    )
    unplaced = unplaced_reasons(plan)
    return Purchases(
        nodes=[Bought(kind, zone, capacity, count, price) for (kind, zone, capacity, price), count in counts.items()],
        unplaced=dict(sorted(unplaced.items())[:MAX_NAMES]),
        unplaced_count=len(unplaced),
        on_existing=sum(len(pods) for pods in plan.placements.values()),
    )


def _is_settled(batch: _Open, claims: Mapping[str, RealClaim], place_of: PlaceOf, now: float) -> bool:
    if now - batch.begun >= SETTLE_SECONDS:
        return True
    launched = all(name not in claims or claims[name].launched for name in batch.claims)
    return launched and all(place_of(uid) != "" for uid in batch.pods)


def _compared(
    batch: _Open, claims: Mapping[str, RealClaim], place_of: PlaceOf, prices: OfferingPrices
) -> BatchComparison:
    launched = [claims.get(name, claim) for name, claim in batch.claims.items()]
    offerings = Counter(claim.offering for claim in launched if claim.launched)
    waiting = sorted(pod.key for uid, pod in batch.pods.items() if place_of(uid) == "")
    why = dict.fromkeys(waiting[:MAX_NAMES], "it waits still")
    theirs = Purchases(
        nodes=[Bought(*offering, count, prices.get(offering, 0.0)) for offering, count in sorted(offerings.items())],
        unplaced=why,
        unplaced_count=len(waiting),
    )
    assert batch.ours is not None  # it was planned when the batch ended
    workloads = Counter(f"{pod.namespace}/{pod.workload_or_name}" for pod in batch.pods.values())
    texts = [f"{name} x{count}" if count > 1 else name for name, count in workloads.most_common(MAX_NAMES)]
    return BatchComparison(batch.begun, len(batch.pods), texts, theirs, batch.ours, _other_pods(batch))


def _other_pods(batch: _Open) -> int:
    """Return for how many more pods than those of the batch its NodeClaims were created, as far as they say it.

    A claim that replaces a node has no mark, and one for pods that wait may have room for pods of nodes that leave too.
    """
    requested = [claim.requested_pods for claim in batch.claims.values()]
    if batch.daemon_pods is None or not all(requested):
        return 0
    return max(0, sum(requested) - batch.daemon_pods * len(requested) - len(batch.pods))


def why_different(comparison: BatchComparison) -> str:
    """Return what makes the two purchases differ, in a sentence."""
    theirs, ours = comparison.theirs, comparison.ours
    if ours.unplaced_count != theirs.unplaced_count:
        more, fewer = ("Tenon", "Karpenter") if ours.unplaced_count > theirs.unplaced_count else ("Karpenter", "Tenon")
        difference = abs(ours.unplaced_count - theirs.unplaced_count)
        return f"{more} leaves {counted(difference, 'pod')} without a node that {fewer} places"
    if comparison.other_pods:
        return (
            f"Karpenter's nodes are also for {counted(comparison.other_pods, 'pod')} of nodes that leave, so the two "
            "cannot be compared"
        )
    if not comparison.is_fair:
        return "The price of a node is not known, so the two cannot be compared"
    parts = []
    if ours.on_existing:
        parts.append(f"puts {ours.on_existing} of {counted(comparison.pods, 'pod')} on nodes that exist already")
    if ours.count != theirs.count:
        parts.append(f"buys {counted(ours.count, 'node') if ours.count else 'no node'} instead of {theirs.count}")
    our_types, their_types = ({bought.instance_type for bought in side.nodes} for side in (ours, theirs))
    if our_types != their_types and our_types:
        parts.append(f"takes {_names(our_types)} instead of {_names(their_types)}")
    our_zones, their_zones = ({bought.zone for bought in side.nodes} for side in (ours, theirs))
    our_capacity, their_capacity = ({bought.capacity_type for bought in side.nodes} for side in (ours, theirs))
    if our_capacity != their_capacity and our_capacity:
        parts.append(f"buys {_names(our_capacity)} instead of {_names(their_capacity)}")
    elif not parts and our_zones != their_zones:
        parts.append(f"takes the zones {_names(our_zones)} instead of {_names(their_zones)}")
    return f"Tenon {listed(parts)}" if parts else "Both buy the same"


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:4]) + (f" and {len(ordered) - 4} more" if len(ordered) > 4 else "")
