"""Makes the entry of a cluster that was torn down, from the report of its workflow."""

from __future__ import annotations

from datetime import datetime

from tenon.messages.teardown import TeardownReport
from tenon.record.entries import MAX_LISTED, TeardownEntry
from tenon.record.origin import Origin
from tenon.sentences import shortened

MAX_TEXT = 500


def teardown_entry(origin: Origin, at: datetime, report: TeardownReport) -> TeardownEntry:
    """Return the entry of a teardown that ended with this report."""
    ended = {f"{item.kind} {item.name}": shortened(item.detail, MAX_TEXT) for item in report.ended[:MAX_LISTED]}
    leftovers = {f"{item.kind} {item.name}": shortened(item.why, MAX_TEXT) for item in report.leftovers[:MAX_LISTED]}
    return TeardownEntry(
        id=f"teardown/{origin.cluster}/{origin.run}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor=report.by,
        region=report.region,
        reason=shortened(report.reason, MAX_TEXT),
        ticket=shortened(report.ticket, MAX_TEXT),
        ended=ended,
        counts=report.counts,
        leftovers=leftovers,
        skipped={step: shortened(why, MAX_TEXT) for step, why in report.skipped.items()},
        price=report.price,
        seconds=(at - report.started_at).total_seconds(),
    )
