"""The cost of now, or of a window, with all that a reader must know about it; and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tenon.cost.rows import Grouping, Row, Saving, row_document
from tenon.kube.timestamps import format_instant
from tenon.money import HOURS_A_MONTH, dollars


@dataclass(frozen=True, slots=True)
class CostReport:
    """The rows, and what belongs to them."""

    grouping: Grouping
    rows: Sequence[Row]
    until: datetime
    spot_share: float
    nodes: int
    """Nodes that run now, or that ran in the window."""
    unpriced: int
    """Of these, the ones whose price is not known."""
    since: datetime | None = None
    """The start of the window; None for a report of now."""
    savings: Sequence[Saving] = ()
    lower_bound: float | None = None
    """The least that any nodes could cost for the pods, in dollars an hour: the last known one, or the mean of the
    window; None if the record has none."""
    bound_at: datetime | None = None
    """When the last one was computed; None for a window."""
    notes: Sequence[str] = field(default_factory=list)
    """What a reader must know; sentences without a period."""

    @property
    def total(self) -> int:
        """The sum of all rows, in nano-dollars."""
        return sum(row.amount for row in self.rows)

    @property
    def hours(self) -> float:
        """The length of the window in hours; 1 for a report of now, whose amounts are those of an hour."""
        return (self.until - self.since).total_seconds() / 3600 if self.since is not None else 1.0


def row_documents(report: CostReport) -> list[dict[str, Any]]:
    """Return the rows as JSON. The names of fields are for scripts: they only gain members."""
    return [row_document(row, report.total, _monthly(report)) for row in report.rows]


def fields_of_rows(report: CostReport) -> list[str]:
    """Return the fields that each row of this report has, also if there is none."""
    return list(row_document(Row("", 0), 0, _monthly(report)))


def _monthly(report: CostReport) -> float | None:
    return HOURS_A_MONTH if report.since is None else None


def to_document(report: CostReport) -> dict[str, Any]:
    """Return the report as JSON."""
    total = dollars(report.total)
    if report.since is None:
        times: dict[str, Any] = {"time": format_instant(report.until)}
        sums: dict[str, Any] = {"costPerHour": total, "costPerMonth": round(total * HOURS_A_MONTH, 2)}
    else:
        times = {"from": format_instant(report.since), "to": format_instant(report.until)}
        sums = {"cost": total, "costPerHour": round(total / report.hours, 9) if report.hours else 0.0}
    bound = report.lower_bound
    return {
        **times,
        "lowerBoundPerHour": round(bound, 6) if bound is not None else None,
        "by": str(report.grouping),
        "rows": row_documents(report),
        "total": sums,
        "spotShare": round(report.spot_share, 6),
        "nodes": report.nodes,
        "nodesWithoutPrice": report.unpriced,
        "savings": [
            {"reason": saving.reason, "commands": saving.commands, "dollarsPerHour": dollars(saving.price)}
            for saving in report.savings
        ],
        "notes": list(report.notes),
    }
