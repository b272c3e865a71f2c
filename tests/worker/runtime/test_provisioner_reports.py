"""The loop that reports to the provisioner's workflow, with a Temporal that fails once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import LaunchReport
from tests.worker.background import in_background
from tests.worker.fake_temporal import UNAVAILABLE, FakeTemporal
from tests.workflows.waiting import until
from worker.runtime.provisioner_reports import InterruptedOfferings, send_reports
from workflows import names

NEVER = 3600.0
"""Seconds that no test waits."""
PROVISIONER = names.provisioner_id("c")


def offering(name: str) -> OfferingRef:
    return OfferingRef(capacity_type="spot", instance_type=name, zone="us-west-2a")


async def sent(temporal: FakeTemporal, count: int) -> list[LaunchReport]:
    async def all_sent() -> bool:
        return len(temporal.signals) >= count

    await until(all_sent)
    assert all(call[:2] == (PROVISIONER, "launches_reported") for call in temporal.signals)
    return [call[2][0] for call in temporal.signals]


async def test_a_report_that_was_accepted_delays_no_later_one() -> None:
    temporal, news = FakeTemporal(), asyncio.Event()
    report, accepted = LaunchReport(closed=["web"]), list[LaunchReport]()
    handle = cast("Any", temporal.get_workflow_handle(PROVISIONER))
    work = send_reports(handle, news, lambda: report, gather=0, retry=NEVER, acknowledge=accepted.append)
    async with in_background(work):
        for count in (1, 2, 3):
            news.set()
            assert await sent(temporal, count) == [report] * count
    assert accepted == [report] * 3


async def test_a_report_that_temporal_does_not_accept_is_sent_again() -> None:
    temporal, news = FakeTemporal(), asyncio.Event()
    temporal.fails[f"signal {PROVISIONER}"] = [UNAVAILABLE]
    report, accepted = LaunchReport(closed=["web"]), list[LaunchReport]()
    handle = cast("Any", temporal.get_workflow_handle(PROVISIONER))
    work = send_reports(handle, news, lambda: report, gather=0, retry=0, acknowledge=accepted.append)
    async with in_background(work):
        news.set()
        assert await sent(temporal, 1) == [report]
    assert accepted == [report]


async def test_aws041_each_report_has_all_interrupted_offerings_that_still_count() -> None:
    clock = [datetime(2026, 11, 23, tzinfo=UTC)]
    temporal, offerings = FakeTemporal(), InterruptedOfferings(lambda: clock[0])
    async with in_background(offerings.report(cast("Any", temporal), "c")):
        offerings.mark_unavailable([offering("m5.large")])
        await sent(temporal, 1)
        clock[0] += timedelta(minutes=3, seconds=-1)
        offerings.mark_unavailable([offering("m5.xlarge")])
        await sent(temporal, 2)
        clock[0] += timedelta(seconds=2)
        offerings.mark_unavailable([offering("m5.2xlarge")])
        reports = await sent(temporal, 3)
    assert [[name for group in report.unavailable for name in group.instance_types] for report in reports] == [
        ["m5.large"],
        ["m5.large", "m5.xlarge"],
        ["m5.xlarge", "m5.2xlarge"],
    ]
