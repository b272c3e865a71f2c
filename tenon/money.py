"""Amounts of money as integers, so that the parts of an amount always add up to it.

An amount is a number of nano-dollars. A price is an amount for an hour: a second at 0.0001 dollars an hour is 28.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal

HOURS_A_MONTH = 730.0
"""What AWS's own calculators count."""
NANOS = 10**9
"""Nano-dollars of a dollar."""
LEAST_CHARGED = timedelta(seconds=60)
"""What EC2 charges for an instance at least."""
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_HOUR = timedelta(hours=1) // _MICROSECOND


def nanos(dollars: float) -> int:
    """Return an amount as nano-dollars."""
    return int((Decimal(repr(dollars)) * NANOS).to_integral_value(ROUND_HALF_EVEN))


def dollars(amount: int) -> float:
    """Return an amount in dollars, for output."""
    return float(Decimal(amount) / NANOS)


def decimal_text(amount: int) -> str:
    """Return an amount in dollars with all its digits, for files that others add up."""
    return f"{Decimal(amount) / NANOS:f}"


def price_text(dollars: float) -> str:
    """Return a price as all outputs say it, '$0.0960': with four digits, because a small node costs a cent an hour."""
    return f"{'-' if dollars < 0 else ''}${abs(dollars):,.4f}"


def per_hour(dollars: float) -> str:
    """Return what something costs an hour, as all outputs say it: '$0.0960 an hour'.

    `tenon.sentences.for_temporal_ui` makes '0.0960 USD/h' of it, because Temporal's UI takes two $ for a formula.
    """
    return f"{price_text(dollars)} an hour"


def sum_text(dollars: float) -> str:
    """Return what something cost in a time, or costs in a month, in the precision that its size deserves."""
    amount = abs(dollars)
    digits = 0 if amount >= 1000 else 2 if amount >= 0.1 or not amount else 4
    return f"{'-' if dollars < 0 else ''}${amount:,.{digits}f}"


def of_time(price: int, time: timedelta) -> int:
    """Return what a time costs at a price, rounded half to even."""
    whole, rest = divmod(price * (time // _MICROSECOND), _HOUR)
    if 2 * rest > _HOUR or (2 * rest == _HOUR and whole % 2):
        whole += 1
    return whole


def instance_charge(price: int, time: timedelta) -> int:
    """Return what EC2 charges for an instance that runs for this time: by the second, and for 60 seconds at least
    (Amazon EC2 pricing, "per second billing"). A second that has begun counts.
    """
    seconds = -(-time // _SECOND)
    return of_time(price, max(LEAST_CHARGED, seconds * _SECOND))


def divide(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide an amount in proportion to weights. The parts add up to the amount.

    What is lost by rounding down goes to the parts that lost most, one nano-dollar each (the method of the largest
    remainder), and for equal losses to the first.

    Args:
        amount: not negative.
        weights: not negative, and not all zero unless the amount is.

    Raises:
        ValueError: there is an amount and nothing to divide it by.
    """
    whole_weight = sum(weights)
    if not whole_weight:
        if amount:
            raise ValueError(f"{amount} nano-dollars cannot be divided: all weights are zero")
        return [0] * len(weights)
    parts, remainders = [], []
    for weight in weights:
        part, remainder = divmod(amount * weight, whole_weight)
        parts.append(part)
        remainders.append(remainder)
    missing = amount - sum(parts)
    for place in sorted(range(len(weights)), key=lambda place: -remainders[place])[:missing]:
        parts[place] += 1
    return parts
