"""NodePools as schedules have them now: limits, replicas, and whether they launch nodes at all.

Plans, static capacity, warm nodes and simulations read these NodePools, so each rule about limits, replicas and usable
NodePools holds for schedules too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.evolve import evolve
from tenon.kube.timestamps import spoken
from tenon.resources import NODES, format_resources, parse_resources
from tenon.schedule.desired import Desired, PoolDemand


def scheduled_pool(pool: NodePool, schedules_ask: Desired) -> NodePool:
    """Return the NodePool as schedules have it now; itself if they ask nothing of it.

    Of its own limits and those of schedules, the smaller ones hold. A static NodePool has the replicas of schedules,
    also those that soon hold if they are more, and none while it is off. One that launches nothing has the reason as an
    annotation (`why_closed`).
    """
    demand = schedules_ask.pools.get(pool.metadata.name)
    annotations = pool.metadata.annotations
    if demand is None and labels.CLOSED_BY_SCHEDULE not in annotations:
        return pool
    annotations = {key: value for key, value in annotations.items() if key != labels.CLOSED_BY_SCHEDULE}
    if demand is None:
        return evolve(pool, metadata=evolve(pool.metadata, annotations=annotations))
    if not demand.launches:
        annotations[labels.CLOSED_BY_SCHEDULE] = closed_clause(pool.metadata.name, schedules_ask)
    spec = pool.spec
    limits = _tighter(spec.limits, demand.limits)
    if spec.replicas is not None:  # limits of a static NodePool may only bound nodes
        limits = {name: amount for name, amount in limits.items() if name == NODES}
    if limits:
        spec = evolve(spec, limits={**spec.limits, **limits})
    if spec.replicas is not None:
        replicas = spec.replicas if demand.replicas is None else demand.replicas
        spec = evolve(spec, replicas=0 if demand.off else max(replicas, demand.replicas_at_least))
    return evolve(pool, metadata=evolve(pool.metadata, annotations=annotations), spec=spec)


def _tighter(own_limits: Mapping[str, str | int | float], scheduled: Mapping[str, int]) -> dict[str, str | int | float]:
    """Return the limits of schedules that are smaller than the NodePool's own."""
    own_units = parse_resources(own_limits)
    tighter = {name: units for name, units in scheduled.items() if units < own_units.get(name, units + 1)}
    return {**format_resources(tighter)}


def closed_clause(pool: str, schedules_ask: Desired) -> str:
    """Say why a NodePool launches nothing now, and when it does again, as the end of a sentence."""
    demand = schedules_ask.pools[pool]
    opens = schedules_ask.opens.get(pool)
    until = f"until {spoken(opens)}" if opens is not None else "for more than a week"
    if demand.off:
        return f"it is off {until} by NodeSchedule {', '.join(demand.entries)}"
    opening = f"; it opens on {spoken(opens)}" if opens is not None else ""
    return (
        f"it is off from {spoken(schedules_ask.off_from[pool])} on by a NodeSchedule, and a new node would leave "
        f"before it is of use{opening}"
    )


def in_words(demand: PoolDemand) -> str:
    """Say what holds for a NodePool."""
    if demand.off:
        return "off"
    parts = []
    if demand.floor_nodes:
        parts.append(f"at least {demand.floor_nodes} nodes")
    if demand.floor_spare:
        parts.append(f"at least {_amounts(demand.floor_spare)} spare")
    if demand.replicas is not None:
        parts.append(f"{demand.replicas} replicas")
    if demand.replicas_at_least:
        parts.append(f"at least {demand.replicas_at_least} replicas")
    if demand.limits:
        parts.append(f"at most {_amounts(demand.limits)}")
    if not demand.launches:
        parts.append("no launches, because it is off soon")
    return "; ".join(parts) or "as without schedules"


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in format_resources(resources).items())
