"""What the messages of the interruption queue mean. The events are examples of AWS's documentation."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.ec2.instances.interruption import EVENTS, MalformedNoticeError, Notice, NoticeKind, read_notice
from tests.ec2.interruption_events import (
    HEALTH,
    HOSTILE,
    ID,
    INTERRUPTIBLE,
    REBALANCE,
    RESERVATION,
    SPOT,
    event,
    state,
)

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def read(message: Any) -> Notice:
    return read_notice(json.dumps(message))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        pytest.param(SPOT, NoticeKind.SPOT_INTERRUPTED, id="AWS-140"),
        pytest.param(state("stopping"), NoticeKind.INSTANCE_STOPPED, id="AWS-142 stopping"),
        pytest.param(state("stopped"), NoticeKind.INSTANCE_STOPPED, id="AWS-142 stopped"),
        pytest.param(state("shutting-down"), NoticeKind.INSTANCE_TERMINATED, id="AWS-143 shutting-down"),
        pytest.param(state("terminated"), NoticeKind.INSTANCE_TERMINATED, id="AWS-143 terminated"),
        pytest.param(REBALANCE, NoticeKind.REBALANCE_RECOMMENDATION, id="AWS-144"),
        pytest.param(RESERVATION, NoticeKind.CAPACITY_RESERVATION_INTERRUPTED, id="AWS-145"),
        pytest.param(INTERRUPTIBLE, NoticeKind.CAPACITY_RESERVATION_INTERRUPTED, id="AWS-125"),
    ],
)
def test_aws140_a_notice_names_its_kind_its_instance_and_its_time(message: dict[str, Any], kind: NoticeKind) -> None:
    assert read(message) == Notice(kind, (ID,), AT)


def test_aws141_a_scheduled_change_names_each_instance_once_and_nothing_else() -> None:
    assert read(HEALTH) == Notice(NoticeKind.SCHEDULED_CHANGE, (ID, "i-1234567890abcdef1"), AT)


@pytest.mark.parametrize("change", [{"service": "RDS"}, {"eventTypeCategory": "issue"}])
def test_aws141_other_events_of_aws_health_are_no_operation(change: dict[str, str]) -> None:
    assert read({**HEALTH, "detail": {**HEALTH["detail"], **change}}).kind is NoticeKind.NO_OP


@pytest.mark.parametrize(
    "message",
    [
        state("pending"),
        state("running"),
        event("aws.ec2", "EC2 AMI State Change", {"State": "available"}),
        event("aws.autoscaling", "EC2 Spot Instance Interruption Warning", {"instance-id": ID}),
        event("com.example", "anything", {}),
    ],
)
def test_aws148_events_that_mean_nothing_here_are_no_operation(message: dict[str, Any]) -> None:
    assert read(message) == Notice(NoticeKind.NO_OP, (), AT)


def test_aws149_another_version_of_events_is_no_operation() -> None:
    assert read({**SPOT, "version": "1"}).kind is NoticeKind.NO_OP
    without = {key: value for key, value in SPOT.items() if key != "version"}
    assert read(without).kind is NoticeKind.SPOT_INTERRUPTED  # as in AWS's example of a state change


def test_aws140_a_notice_with_a_broken_time_or_new_fields_still_counts() -> None:
    assert read({**SPOT, "time": "soon", "resources": "arn", "new": {}}) == Notice(
        NoticeKind.SPOT_INTERRUPTED, (ID,), None
    )
    assert read({**SPOT, "time": 10**400}).instance_ids == (ID,)


def test_aws140_147_only_kinds_that_end_an_instance_make_its_node_leave() -> None:
    stays = {kind for kind in NoticeKind if not kind.ends_node}
    assert stays == {NoticeKind.REBALANCE_RECOMMENDATION, NoticeKind.NO_OP}
    assert {event.reason for event in EVENTS.values()} == {
        "SpotInterrupted",
        "SpotRebalanceRecommendation",
        "InstanceStopping",
        "InstanceTerminating",
        "CapacityReservationInstanceInterrupted",
        "InstanceUnhealthy",
    }


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_aws148_a_body_that_is_no_such_event_is_refused_without_being_quoted(body: str) -> None:
    with pytest.raises(MalformedNoticeError) as refused:
        read_notice(body)
    assert len(str(refused.value)) < 300
    assert "secrets" not in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


PLACES = [
    *[(key,) for key in SPOT],
    *[("detail", key) for key in (*HEALTH["detail"], "instance-id", "state")],
]


def readable(body: str) -> None:
    """Whatever a body says, the answer is a notice with real ids, or one type of error."""
    try:
        notice = read_notice(body)
    except MalformedNoticeError:
        return
    assert isinstance(notice.kind, NoticeKind)
    assert all(len(instance_id) <= 19 and instance_id.startswith("i-") for instance_id in notice.instance_ids)


@given(st.text())
def test_aws148_any_text_is_a_notice_or_refused(body: str) -> None:
    readable(body)


@given(st.sampled_from([SPOT, REBALANCE, RESERVATION, HEALTH, state("stopped")]), st.sampled_from(PLACES), JSON)
def test_aws148_any_value_in_any_field_is_a_notice_or_refused(
    message: dict[str, Any], place: tuple[str, ...], value: Any
) -> None:
    changed = json.loads(json.dumps(message))
    inner = changed
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    readable(json.dumps(changed))
