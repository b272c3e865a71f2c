"""Says what a NodePool lacks for a pod whose requirements it meets: room on one type, minValues, or its own limits.

Each sentence names both the missing and the available amount, because the user changes the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.resources import CPU, PODS, binary_unit, format_quantity
from tenon.scheduling.limits import NODES, Limits
from tenon.scheduling.pod_classes import PodClass
from tenon.scheduling.template import State, Template
from tenon.scheduling.type_table import members

StateCounts = Sequence[tuple[State, int]]
"""For each state of a node with the pod on it, the types that hold the pod."""

_UNLIKELY_CPU = 1_000_000_000
"""Millicores. A larger CPU request was probably meant in another unit."""


def shortage(
    pod_class: PodClass, template: Template, states: Sequence[State], limits: Limits, obstacle: str = ""
) -> str:
    """Why no node of the template could take the pod, given the states that the pod may use; empty if one could.

    ``limits`` is what is left of the pool's limits. ``obstacle`` is the rule between pods that prevents placement; it
    is the reason if there is no simpler one.
    """
    if text := _too_large(pod_class, template, states):
        allowed = [(state, state.types) for state in states]
        return ", and ".join(part for part in (text, _beyond_limits(template, allowed, limits)) if part)
    held = [(state, template.fitting(state, pod_class.amounts)) for state in states]
    if not any(types for _, types in held):
        return _not_at_once(pod_class, template, states)
    if pod_class.ports and not any(types & ~template.blocked(state, pod_class.ports) for state, types in held):
        return "a DaemonSet takes the pod's host port on every type"
    if not any(types and template.diverse(state, types) for state, types in held):
        return _too_uniform(template, held)
    return _beyond_limits(template, held, limits) or obstacle


def _too_large(pod_class: PodClass, template: Template, states: Sequence[State]) -> str:
    types = 0
    for state in states:
        types |= state.types
    found = []
    for number, (name, amount) in enumerate(zip(template.table.names, pod_class.amounts, strict=True)):
        largest = template.table.largest(number, types)
        if amount > largest and not largest:
            found.append(f"needs {name}, which none of the types that it allows has")
        elif amount > largest:
            unit = " (millicores are written with a small m)" if name == CPU and amount >= _UNLIKELY_CPU else ""
            found.append(
                f"needs {_amount(name, amount)}{unit}; the largest type it allows has {_amount(name, largest)}"
            )
    return ", and ".join(found)


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
    rest = tuple(0 if n == number else amount for n, amount in enumerate(pod_class.amounts))
    most = 0
    for state in states:
        holding = template.fitting(state, rest)
        for types, overhead in state.groups:
            if both := holding & types:
                most = max(most, template.table.largest(number, both) - overhead[number])
    return most


def _too_uniform(template: Template, held: StateCounts) -> str:
    offered = {
        key: max(template.offered(state, types, key) if types else 0 for state, types in held) for key in template.least
    }
    lacking = [key for key, least in template.least.items() if offered[key] < least] or template.least
    wanted = [f"{template.least[key]} values of {key}, of which they have {offered[key]}" for key in sorted(lacking)]
    return f"the types that hold the pod do not offer the minValues of the pool ({'; '.join(wanted)})"


def _beyond_limits(template: Template, held: StateCounts, limits: Limits) -> str:
    types = 0
    for _, some in held:
        types |= some
    if limits.allowed(types):
        return ""
    stated = template.pool.limits or {}
    least = {name: 1 if name == NODES else _least_capacity(template, name, types) for name in stated}
    reached = [name for name in sorted(stated) if limits.left.get(name, 0) < least[name]] or sorted(stated)
    if not reached:
        return ""
    text = ", ".join(f"{name} {format_quantity(name, stated[name])}" for name in reached)
    lacking = [
        f"{format_quantity(name, max(0, limits.left[name]))} of {name} is left, and the smallest node for the pod has "
        f"{format_quantity(name, least[name])}"
        for name in reached
        if name != NODES
    ]
    return "; ".join([f"its limit leaves no room for another node ({text})", *lacking])


def _least_capacity(template: Template, name: str, types: int) -> int:
    return min((template.table.types[number].capacity.get(name, 0) for number in members(types)), default=0)


def _amount(name: str, units: int) -> str:
    """Format an amount for people: '96 CPU', '1.5Gi memory'."""
    if name == CPU:
        return f"{units / 1000:.3f}".rstrip("0").rstrip(".") + " CPU"
    size, suffix = binary_unit(units)
    if size >= 2**20:
        return f"{round(units / size, 1):g}{suffix} {name}"
    return f"{units} {name}"
