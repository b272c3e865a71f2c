"""Writes the report of `tenon shadow` as one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from tenon.kube.timestamps import parse_instant
from tenon.money import per_hour, price_text, sum_text
from tenon.page.charts import CHART_STYLE, ChartLine, line_chart
from tenon.page.markup import Content, Markup, page, tag
from tenon.page.style import STYLE
from tenon.page.table import TABLE_STYLE, table
from tenon.page.time_axis import Axis
from tenon.sentences import counted
from tenon.shadow.report import Document, nodes_text, types_text

BUCKETS = 240
KARPENTER, TENON, BOUND = "var(--bad)", "var(--accent)", "var(--good)"
_STYLE = """
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:.7rem;margin:1rem 0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.55rem .75rem}
.tiles b{display:block;font-size:1.45rem;font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}
.tiles span{display:block;color:var(--quiet);font-size:12px}
.lead{font-size:1.15rem;margin:.4rem 0 0}
details{margin:.5rem 0;border-left:3px solid var(--line);padding:.1rem .8rem} summary{cursor:pointer}
@media (max-width:50rem){.tiles{grid-template-columns:repeat(2,1fr)}}
"""


def to_html(report: Document) -> str:
    """Return the page of a report (`tenon.shadow.report.document`)."""
    purchases, risks = report["purchases"], report["risks"]
    return page(
        "tenon shadow",
        STYLE + CHART_STYLE + TABLE_STYLE + _STYLE,
        tag("h1", "Tenon next to Karpenter"),
        tag("p", f"{report['verdict']}.", class_="lead"),
        tag("p", f"From {report['begun']} to {report['at']}. Nothing was written to the cluster.", class_="quiet"),
        _tiles(report),
        _chart(report),
        _both(report),
        _section("Purchases that differ most", _purchases(purchases)),
        _section("Disruption by Tenon that saves most", [_command(entry) for entry in report["commands"]]),
        _section("Risks", _risks(risks)),
        _section("What is not known", _list(report["notes"])),
        _section("What the model assumes", _list(report["assumptions"])),
    )


def _tiles(report: Document) -> Markup:
    cost, rates, moves = report["cost"], report["now"], report["disturbance"]
    saves = "saved" if cost["savedDollars"] >= 0 else "more"
    tiles = [
        (sum_text(abs(cost["savedDollars"])), f"{saves} so far"),
        (price_text(rates["karpenterPricePerHour"]), f"Karpenter an hour, {counted(rates['karpenterNodes'], 'node')}"),
        (price_text(rates["tenonPricePerHour"]), f"Tenon an hour, {counted(rates['tenonNodes'], 'node')}"),
        (sum_text(abs(cost["savedDollarsAMonth"])), f"{saves} a month, if it goes on like that"),
        (f"{moves['karpenter']['podsMoved']}", "pods moved by Karpenter"),
        (f"{moves['tenon']['podsMoved']}", "pods that Tenon would have moved"),
        (f"{moves['karpenter']['nodesRemoved']}", "nodes removed by Karpenter"),
        (f"{moves['tenon']['nodesRemoved']}", "nodes that Tenon would have removed"),
    ]
    return tag("div", (tag("div", tag("b", value), tag("span", name)) for value, name in tiles), class_="tiles")


def _chart(report: Document) -> Content:
    samples = [(instant, sample) for sample in report["samples"] if (instant := parse_instant(sample["at"]))]
    if len(samples) < 2:
        return tag("p", "The chart needs two minutes of samples.", class_="quiet")
    first, last = samples[0][0], samples[-1][0]
    minutes = int((last - first) / timedelta(minutes=1)) + 1
    length = -(-minutes // BUCKETS)
    axis = Axis(first, timedelta(minutes=length), -(-minutes // length))
    buckets: list[Mapping[str, float | None] | None] = [None] * axis.count
    for instant, sample in samples:
        number = axis.bucket(instant)
        if number is not None:
            buckets[number] = sample
    lines = [
        ChartLine([None if bucket is None else bucket[key] for bucket in buckets], name, color)
        for key, name, color in (
            ("karpenterPricePerHour", "Karpenter", KARPENTER),
            ("tenonPricePerHour", "Tenon", TENON),
            ("lowerBoundPricePerHour", "lower bound", BOUND),
        )
    ]
    titles = [_title(axis.start_of(number), bucket) for number, bucket in enumerate(buckets)]
    return line_chart(axis, lines, "Dollars an hour", lambda value: f"${value:g}", titles)


def _title(start: datetime, bucket: Mapping[str, float | None] | None) -> str:
    if bucket is None:
        return ""
    names = {
        "karpenterPricePerHour": "Karpenter",
        "tenonPricePerHour": "Tenon",
        "lowerBoundPricePerHour": "lower bound",
    }
    texts = [f"{name} {price_text(price)}" for key, name in names.items() if (price := bucket[key]) is not None]
    return f"{start:%H:%M}: {', '.join(texts)}"


def _both(report: Document) -> Markup:
    rates, cost, disturbance = report["now"], report["cost"], report["disturbance"]
    rows = [
        (
            title,
            price_text(rates[f"{key}PricePerHour"]),
            price_text(cost[f"{key}Dollars"]),
            f"{rates[f'{key}Nodes']}",
            f"{rates[f'{key}WaitingPods']}",
            f"{disturbance[key]['podsMoved']}",
            ", ".join(f"{count} {reason}" for reason, count in disturbance[key]["byReason"].items()) or "none",
        )
        for title, key in (("Karpenter", "karpenter"), ("Tenon", "tenon"))
    ]
    titles = ("", "an hour now", "so far", "nodes", "waiting pods", "pods moved", "nodes removed")
    return table(titles, rows, figures=range(1, 6))


def _purchases(purchases: Document) -> Content:
    if not purchases["compared"]:
        return None
    unlike = purchases["notComparable"]
    line = (
        f"{counted(purchases['compared'], 'purchase')} for {counted(purchases['pods'], 'pod')} compared: Karpenter "
        f"{per_hour(purchases['karpenterPricePerHour'])}, Tenon {per_hour(purchases['tenonPricePerHour'])}."
        + (f" {unlike} of them cannot be compared by price." if unlike else "")
    )
    return tag("p", line, class_="quiet"), [_purchase(entry) for entry in purchases["differMost"]]


def _purchase(entry: Document) -> Markup:
    saving = entry["savedPricePerHour"]
    head = "not comparable" if saving is None else _saved(saving)
    rows = [
        (name, nodes_text(side), price_text(side["pricePerHour"]), f"{side['unplacedCount']}")
        for name, side in (("Karpenter", entry["karpenter"]), ("Tenon", entry["tenon"]))
    ]
    unplaced = [f"{key}: {why}" for side in ("karpenter", "tenon") for key, why in entry[side]["unplaced"].items()]
    return tag(
        "details",
        tag("summary", f"{entry['at']}, {counted(entry['pods'], 'pod')}: {head}. {entry['why']}."),
        table(("", "bought", "an hour", "pods without a node"), rows, figures=(2, 3)),
        tag("p", "Pods: ", ", ".join(entry["workloads"]), class_="quiet"),
        _list(unplaced),
    )


def _command(entry: Document) -> Markup:
    removed, bought = (types_text(entry[side]) for side in ("removed", "bought"))
    text = f"{entry['at']}, {entry['reason']}: {removed} for {bought}, {_saved(entry['savedPricePerHour'])}"
    return tag("details", tag("summary", f"{text}, {counted(entry['pods'], 'pod')} moved"), _list(entry["explanation"]))


def _saved(price: float) -> str:
    return f"saves {per_hour(price)}" if price >= 0 else f"costs {price_text(-price)} more an hour"


def _risks(risks: Document) -> Content:
    unplaced = [f"Pod {key} has no node with Tenon: {why}" for key, why in risks["unplaced"].items()]
    more = risks["unplacedCount"] - len(risks["unplaced"])
    return _list([*risks["leftOut"], *risks["refused"], *unplaced, *([f"and {more} more pods"] if more > 0 else [])])


def _section(title: str, content: Content) -> Content:
    return (tag("h2", title), content) if content else None


def _list(texts: Sequence[str]) -> Content:
    return tag("ul", (tag("li", text) for text in texts)) if texts else None
