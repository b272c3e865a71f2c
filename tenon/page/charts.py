"""Draws figures over time as SVG that becomes as wide as the page. Labels are texts next to it, which phones can show.

A chart needs no script: each bucket has a title that the pointer shows. Tables on the page have the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tenon.page.markup import Content, Markup, tag
from tenon.page.time_axis import Axis

WIDTH, HEIGHT = 1000, 200
"""The units of the drawings, which are stretched to the size that the style says."""
CHART_STYLE = """
figure{margin:.6rem 0 1rem} figcaption{color:var(--quiet);font-size:12px;margin-bottom:.3rem}
.plot{display:grid;grid-template:10rem 1.2rem/3.4rem 1fr;font-size:11px;color:var(--quiet)}
.plot>div{position:relative}.plot span{position:absolute;white-space:nowrap}
.plot .y span{right:.4rem;transform:translateY(50%)}.plot .x{grid-column:2}
.plot .x span{transform:translateX(-50%);top:.15rem}.plot .x span:first-child{transform:none}
.plot svg{width:100%;height:100%;display:block;overflow:visible}
.plot path,.plot line{vector-effect:non-scaling-stroke}
.plot rect.hit{fill:transparent}.plot rect.hit:hover{fill:var(--tint)}
.bound{color:var(--good);margin-left:1.2rem;white-space:nowrap}
.bound::before{content:"";display:inline-block;width:1.6rem;border-top:2px dashed;
vertical-align:middle;margin-right:.35rem}
.legend{display:flex;gap:1.2rem;font-size:12px;color:var(--quiet);margin:-.6rem 0 1rem 3.4rem}
.legend i{display:inline-block;width:1.1rem;height:3px;margin-right:.35rem;vertical-align:middle}
@media (max-width:40rem){.plot .x span:nth-child(even){display:none}}
"""


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """What happened in one bucket: amounts with their colors, upwards and downwards from the line."""

    up: Sequence[tuple[float, str]] = ()
    down: Sequence[tuple[float, str]] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """Values to compare with, by bucket."""

    values: Sequence[float | None]
    """None where there is none."""
    label: str


@dataclass(slots=True)
class _Scale:
    """From values to heights. 0 is at the height that leaves room for negative values."""

    lowest: float
    highest: float
    step: float = field(init=False)

    def __post_init__(self) -> None:
        self.step = nice_step(max(self.highest - self.lowest, 0.0) or 1.0)
        self.highest = max(self.step, math.ceil(self.highest / self.step - 1e-9) * self.step)
        self.lowest = math.floor(self.lowest / self.step + 1e-9) * self.step

    def share(self, value: float) -> float:
        return (value - self.lowest) / (self.highest - self.lowest)

    def y(self, value: float) -> float:
        return round(HEIGHT * (1 - self.share(value)), 2)

    def values(self) -> list[float]:
        count = round((self.highest - self.lowest) / self.step)
        return [round(self.lowest + number * self.step, 10) for number in range(count + 1)]


def nice_step(span: float) -> float:
    """Return a round distance between labels, of which two to five fit into the span."""
    power = 10.0 ** math.floor(math.log10(span / 3))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span / 4 - 1e-12)


def area_chart(
    axis: Axis,
    values: Sequence[float | None],
    caption: str,
    value_text: Callable[[float], str],
    titles: Sequence[str],
    reference: Reference | None = None,
) -> Markup:
    """Return a line of one value for each bucket, with the area below it.

    Args:
        axis: the window.
        values: by bucket; None where it is not known.
        caption: what the chart shows, in words.
        value_text: formats a value for the labels.
        titles: by bucket, what the pointer shows.
        reference: values to compare with, such as a lower bound. The caption has its label, where it covers no line.
    """
    compared_values = reference.values if reference is not None else []
    scale = _Scale(0.0, max((value for value in (*values, *compared_values) if value is not None), default=0.0))
    drawn: list[Content] = [
        tag("path", d=_areas(axis, scale, values), fill="var(--tint)"),
        tag(
            "path",
            d=_steps(axis, scale, values),
            fill="none",
            stroke="var(--accent)",
            stroke_width="2",
            stroke_linejoin="round",
        ),
    ]
    if reference is not None:
        dashes = {"stroke": "var(--good)", "stroke_width": "1.5", "stroke_dasharray": "5 3"}
        drawn.append(tag("path", d=_steps(axis, scale, reference.values), fill="none", **dashes))
    label = tag("span", reference.label, class_="bound") if reference is not None else None
    return _chart(axis, scale, caption, value_text, [*drawn, _hits(axis, titles)], label)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One of several figures over time."""

    values: Sequence[float | None]
    """By bucket; None where it is not known."""
    name: str
    color: str


def line_chart(
    axis: Axis, lines: Sequence[ChartLine], caption: str, value_text: Callable[[float], str], titles: Sequence[str]
) -> Markup:
    """Return several lines on one scale, with a legend.

    Args:
        axis: the window.
        lines: what is drawn; the last one is on top.
        caption: what the chart shows, in words.
        value_text: formats a value for the labels.
        titles: by bucket, what the pointer shows.
    """
    scale = _Scale(0.0, max((value for line in lines for value in line.values if value is not None), default=0.0))
    drawn = [
        tag(
            "path",
            d=_steps(axis, scale, line.values),
            fill="none",
            stroke=line.color,
            stroke_width="2",
            stroke_linejoin="round",
        )
        for line in lines
    ]
    legend = [
        tag("span", tag("i", style=f"background:{line.color}"), line.name)
        for line in lines
        if any(value is not None for value in line.values)
    ]
    chart = _chart(axis, scale, caption, value_text, [*drawn, _hits(axis, titles)])
    return tag("div", chart, tag("div", legend, class_="legend"))


def column_chart(
    axis: Axis, columns: Sequence[ChartColumn], caption: str, value_text: Callable[[float], str]
) -> Markup:
    """Return one column of stacked amounts for each bucket, upwards and downwards."""
    highest = max((sum(amount for amount, _ in column.up) for column in columns), default=0.0)
    lowest = max((sum(amount for amount, _ in column.down) for column in columns), default=0.0)
    scale = _Scale(-lowest, highest)
    width = WIDTH / axis.count
    drawn = [
        tag(
            "rect",
            x=f"{number * width + width * 0.1:.2f}",
            y=scale.y(max(low, high)),
            width=f"{width * 0.8:.2f}",
            height=round(abs(scale.y(low) - scale.y(high)), 2),
            fill=color,
        )
        for number, column in enumerate(columns)
        for low, high, color in _stacked(column)
    ]
    titles = [column.title for column in columns]
    return _chart(axis, scale, caption, value_text, [drawn, _level(scale.y(0.0), "var(--quiet)"), _hits(axis, titles)])


def _stacked(column: ChartColumn) -> list[tuple[float, float, str]]:
    parts, total = [], 0.0
    for amount, color in column.up:
        parts.append((total, total + amount, color))
        total += amount
    total = 0.0
    for amount, color in column.down:
        parts.append((total, total - amount, color))
        total -= amount
    return parts


def _level(y: float, color: str) -> Markup:
    return tag("line", x1=0, x2=WIDTH, y1=y, y2=y, stroke=color, stroke_width="1.5")


def _steps(axis: Axis, scale: _Scale, values: Sequence[float | None]) -> str:
    """The path that is level in each bucket, with gaps where there is no value."""
    width, parts, is_open = WIDTH / axis.count, [], False
    for number, value in enumerate(values):
        if value is not None:
            start = f"{'L' if is_open else 'M'}{number * width:.2f} {scale.y(value)}"
            parts.append(f"{start}H{(number + 1) * width:.2f}")
        is_open = value is not None
    return "".join(parts)


def _areas(axis: Axis, scale: _Scale, values: Sequence[float | None]) -> str:
    """The path around what is below the line of `_steps`."""
    width = WIDTH / axis.count
    parts = []
    for number, (before, value) in enumerate(zip((None, *values), (*values, None), strict=True)):
        if before is not None and value is None:
            parts.append(f"V{HEIGHT}Z")
        if value is not None:
            start = f"M{number * width:.2f} {HEIGHT}" if before is None else ""
            parts.append(f"{start}V{scale.y(value)}H{(number + 1) * width:.2f}")
    return "".join(parts)


def _hits(axis: Axis, titles: Sequence[str]) -> list[Markup]:
    width = WIDTH / axis.count
    return [
        tag(
            "rect",
            tag("title", title),
            class_="hit",
            x=f"{number * width:.2f}",
            y=0,
            width=f"{width:.2f}",
            height=HEIGHT,
        )
        for number, title in enumerate(titles)
        if title
    ]


def _chart(
    axis: Axis,
    scale: _Scale,
    caption: str,
    value_text: Callable[[float], str],
    drawn: Content,
    label: Content = None,
) -> Markup:
    levels = [
        tag("line", x1=0, x2=WIDTH, y1=scale.y(value), y2=scale.y(value), stroke="var(--line)", stroke_width="1")
        for value in scale.values()
    ]
    labels = [
        tag("span", value_text(value), style=f"bottom:{100 * scale.share(value):.2f}%") for value in scale.values()
    ]
    dates = [tag("span", text, style=f"left:{100 * share:.2f}%") for share, text in axis.ticks()]
    drawing = tag(
        "svg",
        levels,
        drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=caption,
    )
    return tag(
        "figure",
        tag("figcaption", caption, label),
        tag(
            "div",
            tag("div", labels, class_="y"),
            tag("div", drawing),
            tag("div", dates, class_="x"),
            class_="plot",
        ),
    )
