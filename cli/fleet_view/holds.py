"""What holds for whole NodePools now: DisruptionFreezes, NodeSchedules, and rollouts that are under way."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from cli.rollout_status import read_rollout_status
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.validation import parse
from tenon.disruption.freezes.freeze import NEVER, Frozen, freezes_for, frozen_now
from tenon.fleet.summary import FrozenPools, OpenRollout, PoolSchedule
from tenon.kube.object_json import labels
from tenon.kube.records import ObjectRecord
from tenon.schedule.desired import NOTHING, desired
from tenon.schedule.node_pools import in_words

SETTLED = "Settled"


def frozen_pools(freezes: Iterable[ObjectRecord], pools: Iterable[ObjectRecord], now: datetime) -> list[FrozenPools]:
    """Return the NodePools that are frozen now, those with the same freeze together."""
    models = [model for record in freezes if (model := parse(DisruptionFreeze, record.body)[0]) is not None]
    if not models:
        return []
    groups: dict[tuple[str, datetime], tuple[Frozen, list[str]]] = {}
    for pool in sorted(pools, key=lambda pool: pool.name):
        frozen = frozen_now(freezes_for(models, pool.name, labels(pool.body)), now)
        if frozen is not None:
            groups.setdefault((frozen.freeze.name, frozen.until), (frozen, []))[1].append(pool.name)
    return [
        FrozenPools(
            pools=pool_names,
            freeze=frozen.freeze.name,
            by=frozen.freeze.by,
            reason=frozen.freeze.reason,
            until=None if frozen.until == NEVER else frozen.until,
            cause=frozen.cause,
        )
        for frozen, pool_names in groups.values()
    ]


def open_rollouts(rollouts: Iterable[ObjectRecord]) -> list[OpenRollout]:
    """Return the NodePools that a NodeRollout has not brought to one version, by the name of the rollout."""
    views = sorted((read_rollout_status(record.body) for record in rollouts), key=lambda view: view.name)
    return [
        OpenRollout(
            rollout=view.name,
            pool=pool.pool,
            phase=pool.phase,
            wave=view.wave_of(pool),
            target=pool.target,
            message=pool.message,
        )
        for view in views
        for pool in view.pools
        if pool.phase != SETTLED
    ]


def scheduled_pools(
    schedules: Iterable[ObjectRecord], pools: Iterable[ObjectRecord], now: datetime
) -> list[PoolSchedule]:
    """Return the NodePools of which valid NodeSchedules ask something now, by name."""
    parsed = (parse(NodeSchedule, record.body) for record in schedules)
    schedules_ask = desired([model for model, faults in parsed if model is not None and not faults], now)
    return [
        PoolSchedule(pool=name, holds=in_words(demand), entries=demand.entries, until=schedules_ask.until.get(name))
        for name in sorted(pool.name for pool in pools)
        if (demand := schedules_ask.pools.get(name, NOTHING)) != NOTHING
    ]
