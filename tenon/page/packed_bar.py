"""Draws how full a node is: one bar for a resource, whose parts are the pods or workloads that request it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tenon.page.markup import Markup, tag
from tenon.resources import CPU, MEMORY

_UNITS = {CPU: " CPU", MEMORY: "Gi"}


class BarPart(NamedTuple):
    """What requests some of a resource."""

    amount: int
    """In the units of `tenon.resources`."""
    title: str
    """What is shown when the pointer rests on it."""
    color: str
    """As CSS writes it."""
    label: str = ""
    """The text in it, which is cut where it does not fit."""


def packed_bar(resource: str, parts: Iterable[BarPart], room: int, figures: str) -> Markup:
    """Return a bar as wide as the room, with the parts in their order, and the figures after it."""
    drawn_parts = [
        tag(
            "i",
            part.label,
            style=f"width:{round(100 * part.amount / room, 2):g}%;background:{part.color}",
            title=part.title,
        )
        for part in parts
        if room > 0 and part.amount > 0
    ]
    return tag(
        "div",
        tag("span", resource, class_="quiet"),
        tag("div", drawn_parts, class_="room"),
        tag("span", figures),
        class_="bar",
    )


def amount_text(resource: str, units: int) -> str:
    """Return an amount in the same units as the explanations of instance types."""
    return f"{figure_text(resource, units)}{_UNITS.get(resource, '')}"


def figure_text(resource: str, units: int) -> str:
    """Return an amount without its unit, which the text around it names."""
    if resource == CPU:
        return f"{round(units / 1000, 2):g}"
    if resource == MEMORY:
        return f"{units / 2**30:.1f}".removesuffix(".0")
    return f"{units:g}"


def share_text(requested: int, room: int) -> str:
    """Return the requested part of the room in percent, at most 100 %."""
    return f"{min(1.0, requested / room) if room else 0.0:.0%}"
