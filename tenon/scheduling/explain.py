"""Say why a pod found no place, NodePool by NodePool, so that a person knows what to change."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.resources import CPU, format_quantity
from tenon.scheduling.limits import NODES, Limits
from tenon.scheduling.pod_classes import PodClass
from tenon.scheduling.requirements import Requirements
from tenon.scheduling.template import State, Template

_UNLIKELY_CPU = 1_000_000_000
"""Millicores of a request that was probably meant in another unit."""
_BINARY = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def explain(pod_class: PodClass, templates: Sequence[tuple[Template, Limits]], obstacle: str = "") -> str:
    """One sentence for each NodePool, in the order in which they are tried; one for all where all say the same.

    ``obstacle`` is the rule between pods that stands in the way wherever nothing simpler does.
    """
    if not templates:
        return "no NodePool is ready to launch nodes, and no existing node has room"
    if all(_contradiction(term) for term in pod_class.terms):
        key = _contradiction(pod_class.terms[0])
        return f"the pod's own requirements on label {key} contradict each other, so no node can ever meet them"
    undefined = _undefined_everywhere(pod_class, [template for template, _ in templates])
    if undefined:
        return f"no NodePool defines label {undefined}"
    return "; ".join(f"NodePool {t.pool.name}: {_reason(pod_class, t, limits, obstacle)}" for t, limits in templates)


def _contradiction(term: Requirements) -> str:
    return next((key for key in sorted(term) if term[key].contradicts()), "")


def _undefined_everywhere(pod_class: PodClass, templates: Sequence[Template]) -> str:
    """A label that every term of the pod needs and no pool defines."""
    if len(templates) < 2:
        return ""
    needed = [
        {key for key, wanted in term.items() if not wanted.may_be_absent and key not in labels.WELL_KNOWN}
        for term in pod_class.terms
    ]
    common = set.intersection(*needed)
    missing = sorted(key for key in common if not any(key in t.requirements for t in templates))
    return missing[0] if missing else ""


def _reason(pod_class: PodClass, template: Template, limits: Limits, obstacle: str) -> str:
    taint = pod_class.untolerated(template.pool.taints)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"its taint {taint.key}{value}:{taint.effect} is not tolerated"
    if template.contradiction:
        return f"its own requirements and labels contradict each other on {template.contradiction}"
    if not template.start.types:
        return "no available instance type meets its requirements"
    conflicts = [_term_conflict(template, term) for term in pod_class.terms]
    states = template.successors(template.start, pod_class)
    if not states:
        return " or ".join(dict.fromkeys(text for text in conflicts if text))
    return _shortage(pod_class, template, states, limits, obstacle)


def _term_conflict(template: Template, term: Requirements) -> str:
    conflict = template.requirements.conflict(term, labels.WELL_KNOWN)
    if conflict is not None:
        return conflict
    narrowed = template.requirements.with_(term)
    if template.types_for(narrowed):
        return ""
    wanted = ", ".join(str(term[key]) for key in sorted(term))
    return f"no available instance type of the pool meets {wanted}"


def _shortage(pod_class: PodClass, template: Template, states: Sequence[State], limits: Limits, obstacle: str) -> str:
    types = 0
    for state in states:
        types |= state.types
    names, room = template.table.names, template.table
    for number, (name, amount) in enumerate(zip(names, pod_class.amounts, strict=True)):
        largest = room.largest(number, types)
        if amount > largest:
            if not largest:
                return f"needs {name}, which none of the types that it allows has"
            hint = ""
            if name == CPU and amount >= _UNLIKELY_CPU:
                hint = " (millicores are written with a small m)"
            return f"needs {_amount(name, amount)}{hint}; the largest type it allows has {_amount(name, largest)}"
    held = [(state, template.fitting(state, pod_class.amounts)) for state in states]
    if not any(types for _, types in held):
        needs = " and ".join(_amount(n, a) for n, a in zip(names, pod_class.amounts, strict=True) if a and n != "pods")
        daemons = ", once its DaemonSets have their room" if any(state.daemons for state in states) else ""
        return f"no type that it allows has {needs} at once{daemons}"
    if pod_class.ports and not any(types & ~template.blocked(state, pod_class.ports) for state, types in held):
        return "a DaemonSet takes the pod's host port on every type"
    if not any(types and template.diverse(state, types) for state, types in held):
        wanted = ", ".join(f"{least} values of {key}" for key, least in sorted(template.least.items()))
        return f"the types that hold the pod do not offer the minValues of the pool ({wanted})"
    if obstacle and any(limits.allowed(types) for _, types in held):
        return obstacle
    reached = [name for name, amount in limits.left.items() if amount < (1 if name == NODES else 0)] or sorted(
        limits.left
    )
    stated = template.pool.limits or {}
    text = ", ".join(f"{name} {format_quantity(name, stated[name])}" for name in reached)
    return f"its limit leaves no room for another node ({text})" if text else "no node of it could take the pod"


def _amount(name: str, units: int) -> str:
    """An amount as a person says it: '96 CPU', '1.5Gi memory'."""
    if name == CPU:
        return f"{units / 1000:g} CPU"
    for size, suffix in _BINARY if units >= 2**20 else ():
        if units >= size:
            return f"{round(units / size, 1):g}{suffix} {name}"
    return f"{units} {name}"
