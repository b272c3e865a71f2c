"""AWS-146, AWS-147: what EC2's status checks and scheduled events mean, and how they are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.instance_statuses import failing
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tenon.ec2.instances.interruption import NoticeKind
from tenon.ec2.instances.status import InstanceStatus, unhealthy

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LONG, SHORT = NOW - timedelta(seconds=120), NOW - timedelta(seconds=119)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (InstanceStatus("i-1", instance_impaired_since=LONG), NoticeKind.INSTANCE_STATUS),
        (InstanceStatus("i-1", system_impaired_since=LONG), NoticeKind.SYSTEM_STATUS),
        (InstanceStatus("i-1", LONG, LONG, ("soon",)), NoticeKind.SYSTEM_STATUS),
        (InstanceStatus("i-1", instance_impaired_since=SHORT), None),
        (InstanceStatus("i-1", system_impaired_since=SHORT), None),
        (InstanceStatus("i-1", SHORT, SHORT, ("soon",)), NoticeKind.EVENT_STATUS),
        (InstanceStatus("i-1", events=("[Completed] reboot", "[Canceled] stop")), None),
        (InstanceStatus("i-1"), None),
    ],
)
def test_aws146_147_what_a_status_means(status: InstanceStatus, kind: NoticeKind | None) -> None:
    """A check may fail for two minutes. An event that is over means nothing."""
    assert unhealthy([status], NOW) == ({} if kind is None else {"i-1": kind})


def test_aws146_only_instances_that_fail_or_have_an_event_are_read(clients: Ec2, server: Server) -> None:
    ec2 = Ec2Admin(server.endpoint)
    tags = {labels.TAG_CLUSTER: "sandbox"}
    healthy, system, instance, stops, ended = (ec2.plant_instance(tags, age_seconds=60) for _ in range(5))
    ec2.impair_instance(system, "system", seconds=200)
    ec2.impair_instance(instance, "instance", seconds=30)
    ec2.schedule_event(stops, "instance-stop", "degraded hardware")
    ec2.impair_instance(ended, "system", seconds=200)
    ec2.kill_instance(ended)
    statuses = {status.instance_id: status for status in failing(clients)}
    assert set(statuses) == {system, instance, stops}
    assert healthy not in statuses
    assert statuses[stops].events == ("degraded hardware",)
    now = datetime.now(UTC)
    assert unhealthy(statuses.values(), now) == {system: NoticeKind.SYSTEM_STATUS, stops: NoticeKind.EVENT_STATUS}
    assert unhealthy(statuses.values(), now + timedelta(seconds=100))[instance] is NoticeKind.INSTANCE_STATUS
    ec2.impair_instance(system, "system", seconds=None)
    assert {status.instance_id for status in failing(clients)} == {instance, stops}
