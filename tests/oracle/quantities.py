"""Amounts of resources, exactly: whole billionths of a unit, so that nothing is lost in sums and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

Amounts = dict[str, int]

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount(quantity: Any) -> int:
    """A Kubernetes quantity in billionths of its unit, rounded up."""
    text = str(quantity)
    with localcontext() as context:
        context.prec = 80
        if text[-2:] in _BINARY:
            number = Decimal(text[:-2]) * (1 << _BINARY[text[-2:]])
        elif text[-1:].isalpha():
            number = Decimal(text[:-1]).scaleb(_DECIMAL[text[-1]])
        else:
            number = Decimal(text)
        return int(number.scaleb(9).to_integral_value(ROUND_CEILING))


def amounts(declaration: Mapping[str, Any] | None) -> Amounts:
    """A resource list."""
    return {name: amount(quantity) for name, quantity in (declaration or {}).items()}


def plus(lists: Iterable[Mapping[str, int]]) -> Amounts:
    """All lists together."""
    total: Amounts = {}
    for item in lists:
        for name, units in item.items():
            total[name] = total.get(name, 0) + units
    return total


def largest(lists: Iterable[Mapping[str, int]]) -> Amounts:
    """The largest amount of each resource."""
    total: Amounts = {}
    for item in lists:
        for name, units in item.items():
            total[name] = max(total.get(name, 0), units)
    return total


def lacking(needed: Mapping[str, int], present_items: Mapping[str, int]) -> list[str]:
    """The resources of which there is less than needed."""
    return sorted(name for name, units in needed.items() if units > present_items.get(name, 0) and units > 0)


def asked_by(spec: Mapping[str, Any]) -> Amounts:
    """What a pod asks of its node, the pod itself counted as one of ``pods``."""
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container(container)
        if container.get("restartPolicy") == "Always":
            sidecars = plus((sidecars, own))
            highest = largest((highest, sidecars))
        else:
            highest = largest((highest, plus((sidecars, own))))
    working = plus((sidecars, *(_container(container) for container in spec.get("containers") or ())))
    whole = largest((working, highest))
    whole.update(amounts((spec.get("resources") or {}).get("requests")))
    return plus((whole, amounts(spec.get("overhead")), {"pods": amount(1)}))


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}
