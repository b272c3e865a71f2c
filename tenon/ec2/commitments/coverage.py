"""Which nodes of this cluster the account's commitments cover, and what they leave for new ones.

AWS covers whatever runs in the account. So a cluster may use what its own instances use already, and a share of what is
left by all instances, in proportion to what the clusters of the account run. Every cluster that reads the account at
about the same time finds the same. So together they never use more than was bought, also if all buy before they read
it again.

An instance that would be covered in part counts as not covered, but uses up the rest. So the price of no node is too
low, and what is left is never too much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from tenon.apis import labels
from tenon.apis.warm import STOPPED
from tenon.ec2.commitments.pools import may_cover
from tenon.ec2.refusals.known_quotas import capacity_types
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import Commitment


@dataclass(frozen=True, slots=True)
class RunningInstance:
    """An instance of the account that is pending or running."""

    id: str
    instance_type: str
    zone: str
    is_on_demand: bool
    """It is of Linux, in shared tenancy, and neither spot nor in a capacity block, so that commitments may cover it."""
    cluster: str = ""
    """The cluster that it is tagged with; empty for none."""
    has_node_class: bool = False
    """It is tagged with an EC2NodeClass: it was launched for a NodeClaim."""


@dataclass(frozen=True, slots=True)
class Use:
    """What uses commitments: a node of one type, or a NodeClaim that may become one of several."""

    key: str
    instance_types: tuple[str, ...]
    zone: str
    """Empty if it is not decided yet."""

    def units(self, commitment: Commitment) -> int:
        """The most that it may use up of a commitment; 0 if that does not cover it."""
        if commitment.zone and self.zone not in ("", commitment.zone):
            return 0
        return max((commitment.units.get(name, 0) for name in self.instance_types), default=0)

    def is_certain(self, commitment: Commitment) -> bool:
        """Whether the commitment covers it, whatever it becomes."""
        is_there = commitment.zone in ("", self.zone)
        return is_there and all(name in commitment.units for name in self.instance_types)


@dataclass(frozen=True, slots=True)
class AccountCommitments:
    """The commitments of the account, each with as much as this cluster may use of it."""

    allowed: tuple[Commitment, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the commitments do for the cluster now."""

    remaining: tuple[Commitment, ...] = ()
    """The commitments with what is left of each for new nodes."""
    covered: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim, the name of the commitment that covers its node."""


NO_COVERAGE = Coverage()


def allowed_commitments(
    commitments: Sequence[Commitment],
    running: Iterable[RunningInstance],
    own_ids: Collection[str],
    cluster: str,
    vcpus: Mapping[str, int],
) -> AccountCommitments:
    """Return how much of each commitment this cluster may use.

    Args:
        commitments: what was bought.
        running: the instances of the account and region.
        own_ids: the IDs of the instances of this cluster's NodeClaims, as far as they were known before the read.
        cluster: the name of this cluster; empty if it is that of these instances.
        vcpus: by instance type. What a cluster runs is counted in vCPUs.
    """
    uses: list[Use] = []
    sizes: dict[str, int] = {}
    own_size = 0
    of_claims = set(own_ids)
    for instance in running:
        if instance.is_on_demand:
            uses.append(Use(instance.id, (instance.instance_type,), instance.zone))
        size = vcpus.get(instance.instance_type, 0)
        if instance.id in own_ids or (cluster and instance.cluster == cluster):
            own_size += size
            if instance.has_node_class:
                of_claims.add(instance.id)
        elif instance.cluster:
            sizes[instance.cluster] = sizes.get(instance.cluster, 0) + size
    other_size = sum(sizes.values())
    share = Fraction(own_size, own_size + other_size) if other_size else Fraction(1)
    assignment = _assigned(commitments, uses)
    allowed = []
    for commitment in commitments:
        own = sum(assignment.amounts.get((key, commitment.name), 0) for key in of_claims)
        free = assignment.rest_of(commitment).remaining
        allowed.append(replace(commitment, remaining=own + int(free * share)))
    return AccountCommitments(tuple(allowed))


def coverage_of(account: AccountCommitments | None, claims: Iterable[ClaimRecord]) -> Coverage:
    """Return what the commitments cover of the nodes of these NodeClaims, and what they leave.

    ``account``: None if commitments are not used, or could not be read.
    """
    if account is None or not account.allowed:
        return NO_COVERAGE
    uses = (_use_of(claim) for claim in claims)
    assignment = _assigned(account.allowed, [use for use in uses if use is not None])
    return Coverage(tuple(map(assignment.rest_of, account.allowed)), assignment.covered)


def _use_of(claim: ClaimRecord) -> Use | None:
    is_block = claim.labels.get(labels.RESERVATION_TYPE) == labels.CAPACITY_BLOCK
    is_spot = not {labels.ON_DEMAND, labels.RESERVED}.intersection(capacity_types(claim))
    if is_spot or is_block or claim.warm == STOPPED or not may_cover(_requirements(claim)):
        return None
    launched_type = claim.labels.get(labels.INSTANCE_TYPE, "") if claim.provider_id else ""
    names = (launched_type,) if launched_type else tuple(claim.instance_types)
    return Use(claim.name, names, claim.labels.get(labels.ZONE, "") if launched_type else "") if names else None


def _requirements(claim: ClaimRecord) -> Requirements:
    """What the node is, or may become: its NodePool need not say which operating system the EC2NodeClass has."""
    requirements = Requirements.from_terms(claim.spec.get("requirements") or ())
    system = claim.labels.get(labels.OS)
    return requirements.with_(Requirements.from_labels({labels.OS: system})) if system else requirements


@dataclass(slots=True)
class _Assignment:
    """Which uses take how much of which commitments."""

    covered: dict[str, str] = field(default_factory=dict)
    """By use, the commitment that covers it as a whole."""
    amounts: dict[tuple[str, str], int] = field(default_factory=dict)
    """By use and commitment."""
    _sums: dict[str, int] = field(default_factory=dict)

    def take(self, use: Use, commitment: Commitment, amount: int) -> None:
        """Use up so much of a commitment."""
        self.amounts[use.key, commitment.name] = amount
        self._sums[commitment.name] = self._sums.get(commitment.name, 0) + amount

    def rest_of(self, commitment: Commitment) -> Commitment:
        """Return the commitment with what is left of it."""
        return replace(commitment, remaining=commitment.remaining - self._sums.get(commitment.name, 0))


def _largest_first(amount_and_use: tuple[int, Use]) -> tuple[int, str]:
    amount, use = amount_and_use
    return -amount, use.key


def _assigned(commitments: Sequence[Commitment], uses: Iterable[Use]) -> _Assignment:
    """Return what the uses take of the commitments, in an order that does not depend on whose they are.

    Large ones come first, so that few are covered in part.
    """
    assignment = _Assignment()
    waiting = list(uses)
    for commitment in commitments:
        still_waiting = []
        for amount, use in sorted(((use.units(commitment), use) for use in waiting), key=_largest_first):
            if amount and amount <= assignment.rest_of(commitment).remaining and use.is_certain(commitment):
                assignment.take(use, commitment, amount)
                assignment.covered[use.key] = commitment.name
            else:
                still_waiting.append(use)
        waiting = still_waiting
    for use in sorted(waiting, key=lambda use: use.key):
        rest = Fraction(1)
        for commitment in commitments:
            if (amount := use.units(commitment)) and rest > 0:
                part = min(assignment.rest_of(commitment).remaining, ceil(amount * rest))
                assignment.take(use, commitment, part)
                rest -= Fraction(part, amount)
    return assignment
