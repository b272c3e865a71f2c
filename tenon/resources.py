"""Kubernetes quantities and resource lists as integers, so that sums and comparisons are exact.

A resource list maps a resource name to an integer: CPU in millicores, every other resource in its base unit (bytes,
pods, devices). Fractions of that unit are rounded up, as in the scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

Resources = dict[str, int]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
NODES = "nodes"
"""The pseudo-resource that counts the nodes of a NodePool in its limits and its status."""

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_SHOWN_SUFFIXES = ("Ti", "Gi", "Mi", "Ki")
"""The binary suffixes that Tenon writes, the largest first. The others are only read."""
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
}
_QUANTITY = re.compile(
    r"^(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:(?P<exponent>[eE][+-]?[0-9]{1,3})|(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?))$"
)


def parse_quantity(text: str | int | float) -> Decimal:
    """Return the exact value of a Kubernetes quantity such as ``250m``, ``1.5Gi`` or ``1e3``.

    Raises:
        ValueError: the text is not a quantity. The message quotes the text.
    """
    match = _QUANTITY.match(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: write a number with an optional suffix, such as 250m or 1Gi")
    number = Decimal(match["number"])
    if match["exponent"]:
        return number.scaleb(int(match["exponent"][1:]))
    suffix = match["suffix"] or ""
    return number * (_BINARY[suffix] if suffix in _BINARY else _DECIMAL[suffix])


def to_units(name: str, quantity: str | int | float) -> int:
    """A quantity in the unit of this module: millicores for CPU, else whole base units, rounded up.

    Raises:
        ValueError: it is not a quantity.
    """
    if not isinstance(quantity, str | int | float):  # unhashable, where JSON holds something else
        raise ValueError(f"{quantity!r} is not a quantity: write a number with an optional suffix, such as 250m or 1Gi")
    return _units(name, quantity)


@lru_cache(16_384, typed=True)
def _units(name: str, quantity: str | int | float) -> int:
    """The result of `to_units`, kept: thousands of nodes state the same quantities, and to parse them takes 100 ms."""
    value = parse_quantity(quantity)
    return int((value * 1000 if name == CPU else value).to_integral_value(rounding=ROUND_CEILING))


def parse_resources(quantities: Mapping[str, str | int | float] | None) -> Resources:
    """Parse a Kubernetes resource list (name to quantity) into integer units."""
    return {name: to_units(name, quantity) for name, quantity in (quantities or {}).items()}


def format_quantity(name: str, units: int) -> str:
    """Return the shortest exact Kubernetes text of an integer amount (the inverse of `to_units`)."""
    if name == CPU:
        return str(units // 1000) if units % 1000 == 0 else f"{units}m"
    if (units and name in (MEMORY, EPHEMERAL_STORAGE)) or name.startswith("hugepages-"):
        for suffix in _SHOWN_SUFFIXES:
            if units and units % _BINARY[suffix] == 0:
                return f"{units // _BINARY[suffix]}{suffix}"
    return str(units)


def binary_unit(units: int) -> tuple[int, str]:
    """Return the largest binary unit within an amount, for people: its size and suffix, such as (2**30, 'Gi').

    (1, '') for an amount below all of them.
    """
    for suffix in _SHOWN_SUFFIXES:
        if units >= _BINARY[suffix]:
            return _BINARY[suffix], suffix
    return 1, ""


def format_resources(resources: Mapping[str, int]) -> dict[str, str]:
    """Format a resource list for Kubernetes, sorted by name."""
    return {name: format_quantity(name, resources[name]) for name in sorted(resources)}


def add(*lists: Mapping[str, int]) -> Resources:
    """Return the sum of the resource lists."""
    return total(lists)


def total(lists: Iterable[Mapping[str, int]]) -> Resources:
    """Return the sum of any number of resource lists."""
    result: Resources = {}
    for resources in lists:
        for name, units in resources.items():
            result[name] = result.get(name, 0) + units
    return result


def subtract(amounts: Mapping[str, int], subtracted: Mapping[str, int]) -> Resources:
    """Return ``amounts`` minus ``subtracted``. Names that are only in ``subtracted`` become negative."""
    result = dict(amounts)
    for name, units in subtracted.items():
        result[name] = result.get(name, 0) - units
    return result


def maximum(*lists: Mapping[str, int]) -> Resources:
    """Return the largest amount of each name."""
    result: Resources = {}
    for resources in lists:
        for name, units in resources.items():
            result[name] = max(result.get(name, units), units)
    return result


def fits(requests: Mapping[str, int], available: Mapping[str, int]) -> bool:
    """Whether every request fits into what is available. A list with a negative available amount never fits."""
    if any(units < 0 for units in available.values()):
        return False
    return all(units <= available.get(name, 0) for name, units in requests.items() if units > 0)
