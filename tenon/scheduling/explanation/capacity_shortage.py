"""Says what a NodePool lacks for a pod whose requirements it meets: room on one type, minValues, or its own limits.

Each sentence names both the missing and the available amount, because the user changes the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.resources import CPU, NODES, PODS, binary_unit, format_quantity
from tenon.scheduling.offerings.hourly_cost import COSTS, lacking_text, limit_text
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.template import State, Template
from tenon.scheduling.offerings.type_table import members
from tenon.scheduling.pods.pod_classes import PodClass

StateCounts = Sequence[tuple[State, int]]
"""For each state of a node with the pod on it, the types that hold the pod."""

_UNLIKELY_CPU = 1_000_000_000
"""Millicores. A larger CPU request was probably meant in another unit."""


def shortage(
    pod_class: PodClass, template: Template, states: Sequence[State], limits: Limits, rule: Obstacle | None = None
) -> tuple[Obstacle, ...]:
    """Why no node of the template could take the pod, given the states that the pod may use; empty if one could.

    ``limits`` is what is left of the pool's limits. ``rule`` is what prevents placement otherwise; it is the reason if
    there is no simpler one. The text about requests that are too large has the pod as its subject, and does not name
    it.
    """
    if text := _too_large(pod_class, template, states):
        allowed = [(state, state.types) for state in states]
        return (Obstacle(ObstacleKind.REQUESTS, text), *_beyond_limits(template, allowed, limits))
    state_types = [(state, template.fitting(state, pod_class.amounts)) for state in states]
    if not any(types for _, types in state_types):
        return (Obstacle(ObstacleKind.ROOM, _not_at_once(pod_class, template, states)),)
    if pod_class.ports and not any(types & ~template.blocked(state, pod_class.ports) for state, types in state_types):
        return (Obstacle(ObstacleKind.ROOM, "a DaemonSet takes the pod's host port on every type"),)
    if not any(types and template.diverse(state, types) for state, types in state_types):
        return (Obstacle(ObstacleKind.MIN_VALUES, _too_uniform(template, state_types)),)
    return _beyond_limits(template, state_types, limits) or ((rule,) if rule is not None else ())


def _too_large(pod_class: PodClass, template: Template, states: Sequence[State]) -> str:
    types = 0
    for state in states:
        types |= state.types
    reasons = []
    for number, (name, amount) in enumerate(zip(template.table.names, pod_class.amounts, strict=True)):
        largest = template.table.largest(number, types)
        if amount > largest and not largest:
            reasons.append(f"needs {name}, which none of the types that it allows has")
        elif amount > largest:
            unit = " (millicores are written with a small m)" if name == CPU and amount >= _UNLIKELY_CPU else ""
            reasons.append(
                f"needs {_amount(name, amount)}{unit}; the largest type it allows has {_amount(name, largest)}"
            )
    return ", and ".join(reasons)


def _not_at_once(pod_class: PodClass, template: Template, states: Sequence[State]) -> str:
    amounts = dict(zip(template.table.names, pod_class.amounts, strict=True))
    needs = " and ".join(_amount(name, amount) for name, amount in amounts.items() if amount and name != PODS)
    daemons = ", in addition to its DaemonSets" if any(state.daemons for state in states) else ""
    text = f"no type that it allows has {needs} at once{daemons}"
    rooms = [
        (room / amount, name, room)
        for number, (name, amount) in enumerate(amounts.items())
        if amount and 0 < (room := _room_left(pod_class, template, states, number)) < amount
    ]
    if not rooms:
        return text
    _, name, room = max(rooms)
    return f"{text}: with the rest of the pod there is room for {_amount(name, room)}"


def _room_left(pod_class: PodClass, template: Template, states: Sequence[State], number: int) -> int:
    """How much of one resource is left on a node that holds the rest of the pod; 0 if no node holds the rest."""
    other_amounts = tuple(0 if n == number else amount for n, amount in enumerate(pod_class.amounts))
    largest = 0
    for state in states:
        holding = template.fitting(state, other_amounts)
        for types, overhead in state.groups:
            if holding_types := holding & types:
                largest = max(largest, template.table.largest(number, holding_types) - overhead[number])
    return largest


def _too_uniform(template: Template, state_types: StateCounts) -> str:
    offered = {
        key: max(template.offered(state, types, key) if types else 0 for state, types in state_types)
        for key in template.least
    }
    lacking = [key for key, min_values in template.least.items() if offered[key] < min_values] or template.least
    min_values_texts = [
        f"{template.least[key]} values of {key}, of which they have {offered[key]}" for key in sorted(lacking)
    ]
    text = f"the types that hold the pod do not offer the minValues of the pool ({'; '.join(min_values_texts)})"
    not_of_types = [key for key in sorted(lacking) if not template.table.decides(key)]
    if not not_of_types:
        return text
    names = " and ".join(not_of_types)
    return f"{text}: minValues count only labels that instance types have, so remove those of {names}"


def _beyond_limits(template: Template, state_types: StateCounts, limits: Limits) -> tuple[Obstacle, ...]:
    types = 0
    for _, state_holds in state_types:
        types |= state_holds
    if limits.allowed(types):
        return ()
    pool_limits = template.pool.limits or {}
    least_amounts = {name: 1 if name == NODES else _least_capacity(template, name, types) for name in pool_limits}
    reached = [name for name in sorted(pool_limits) if limits.remaining.get(name, 0) < least_amounts[name]] or sorted(
        pool_limits
    )
    if not reached:
        return ()
    text = ", ".join(
        limit_text(name, pool_limits[name]) if name in COSTS else f"{name} {format_quantity(name, pool_limits[name])}"
        for name in reached
    )
    lacking = [
        lacking_text(name, limits.remaining[name], least_amounts[name])
        if name in COSTS
        else f"{format_quantity(name, max(0, limits.remaining[name]))} of {name} is left, and the smallest node for "
        f"the pod has {format_quantity(name, least_amounts[name])}"
        for name in reached
        if name != NODES
    ]
    sentence = "; ".join([f"its limit leaves no room for another node ({text})", *lacking])
    return (Obstacle(ObstacleKind.LIMITS, sentence),)


def _least_capacity(template: Template, name: str, types: int) -> int:
    return min((template.table.types[number].capacity.get(name, 0) for number in members(types)), default=0)


def _amount(name: str, units: int) -> str:
    """Format an amount for people: '96 CPU', '1.5Gi memory'."""
    if name == CPU:
        return f"{units / 1000:.3f}".rstrip("0").rstrip(".") + " CPU"
    size, suffix = binary_unit(units)
    if size >= 2**20:
        return f"{units / size:.1f}".removesuffix(".0") + f"{suffix} {name}"
    return f"{units} {name}"
