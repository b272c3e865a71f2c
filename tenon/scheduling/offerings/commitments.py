"""Uses what is left of Savings Plans and Reserved Instances, because it is paid for whether or not nodes use it.

A commitment becomes a pool of its own, which comes after those of capacity reservations and before its NodePool. It has
the same name and rules, buys on demand only the types that the commitment covers, and has what is left as a limit. So a
commitment is never used beyond what is left, whichever of its types EC2 chooses, and never counted twice. A node that
it would cover only in part is bought as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tenon.apis import labels
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.model import Commitment, InstanceType, Pool
from tenon.scheduling.offerings.limits import COMMITMENT
from tenon.scheduling.offerings.type_table import TypeTable, TypeTables

COVERED_PRICE_SHARE = 1e-7
"""What a covered node costs as a share of its on-demand price: paid already, but still ordered, as a place in a
capacity reservation is."""


def by_commitment(pools: Iterable[Pool], tables: TypeTables) -> Iterator[Pool]:
    """Yield, before each pool that may buy on demand, one pool for each commitment that may cover its nodes.

    ``tables``: keeps the lists of types that commitments cover, because each plan needs them.
    """
    for pool in pools:
        if pool.commitments and pool.requirements.get(labels.CAPACITY_TYPE).has(labels.ON_DEMAND):
            for commitment in pool.commitments:
                covered_pool = _covered(pool, commitment, tables)
                if covered_pool is not None:
                    yield covered_pool
        yield pool


def _covered(pool: Pool, commitment: Commitment, tables: TypeTables) -> Pool | None:
    name = f"{COMMITMENT}{commitment.name}"
    available = commitment.remaining - pool.usage.get(name, 0)
    if available <= 0:
        return None
    types = tables.derived(pool.instance_types, name, lambda: _covered_types(pool.instance_types, commitment, name))
    if not any(kind.capacity[name] <= available for kind in types):
        return None
    own = [Requirement.new(labels.CAPACITY_TYPE, IN, (labels.ON_DEMAND,))]
    if commitment.zone:
        own.append(Requirement.new(labels.ZONE, IN, (commitment.zone,)))
    requirements = pool.requirements.with_(Requirements.of(*own))
    if any(requirements[requirement.key].contradicts() for requirement in own):
        return None
    limits = {**(pool.limits or {}), name: commitment.remaining}
    return replace(pool, requirements=requirements, instance_types=types, limits=limits, commitments=())


def _covered_types(types: Iterable[InstanceType], commitment: Commitment, name: str) -> list[InstanceType]:
    covered_types = []
    for kind in types:
        units = commitment.units.get(kind.name)
        offerings = tuple(
            offering
            for offering in kind.offerings
            if offering.capacity_type == labels.ON_DEMAND and commitment.zone in ("", offering.zone)
        )
        if units is not None and offerings:
            covered_types.append(replace(kind, offerings=offerings, capacity={**kind.capacity, name: units}))
    return covered_types


def commitment_of(pool: Pool) -> str:
    """Return the name of the commitment that the pool stands for; empty if it is none of `by_commitment`."""
    names = (name for name in pool.limits or {} if name.startswith(COMMITMENT))
    return next((name.removeprefix(COMMITMENT) for name in names), "")


def used_up_by(commitment: str, table: TypeTable, types: int) -> int:
    """Return the most that a node of one of the types uses up; 0 without a commitment."""
    return table.largest_capacity(f"{COMMITMENT}{commitment}", types) if commitment else 0


def covered_price(price: float) -> float:
    """Return what a node costs, in dollars an hour, while a commitment covers it. ``price`` is its on-demand price."""
    return price * COVERED_PRICE_SHARE


def may_be_covered(pool: Pool, kind: InstanceType) -> bool:
    """Whether something is left of a commitment that covers the type."""
    return any(commitment.remaining > 0 and kind.name in commitment.units for commitment in pool.commitments)
