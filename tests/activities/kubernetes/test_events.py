"""Events: silence on repetition, counts, and no harm when they fail (EVT-01 to EVT-07)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activities.kubernetes.errors import ApiError, ConflictError, ForbiddenError
from activities.kubernetes.event_references import reference
from activities.kubernetes.events import MOST_RETRIED, RETRY_AFTER, EventRecorder
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.kube.event_reasons import EventReason

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}}


class Api:
    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.error: Exception | None = None
        self.time = 1000.0
        self.requests: list[str] = []

    async def create(self, resource: Any, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        self.requests.append("create")
        if self.error:
            raise self.error
        name = body["metadata"]["name"]
        if name in self.events:
            raise ConflictError(409, "AlreadyExists", "exists")
        self.events[name] = body
        return body

    async def get(self, resource: Any, name: str, namespace: str = "") -> dict[str, Any]:
        self.requests.append("get")
        return self.events[name]

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], **_: Any) -> dict[str, Any] | None:
        self.requests.append("patch")
        if self.error:
            raise self.error
        if name not in self.events:
            return None
        metadata = {**self.events[name]["metadata"], **patch.get("metadata", {})}
        self.events[name] = {**self.events[name], **patch, "metadata": metadata}
        return self.events[name]

    def recorder(self) -> EventRecorder:
        return EventRecorder(self, clock=lambda: self.time)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [
        (EventReason.DISRUPTED, 120),
        (EventReason.UNCONSOLIDATABLE, 900),
        (EventReason.NO_COMPATIBLE_INSTANCE_TYPES, 60),
    ],
)
async def test_a_repetition_is_silent_for_its_window_and_then_counts(reason: EventReason, seconds: float) -> None:
    api = Api()
    recorder = api.recorder()
    assert await recorder.publish(NODE, reason, "so it is")
    api.time += seconds - 1
    assert not await recorder.publish(NODE, reason, "so it is")
    assert await recorder.publish(NODE, reason, "and otherwise now")
    api.time += 1
    assert await recorder.publish(NODE, reason, "so it is")
    assert sorted(event["count"] for event in api.events.values()) == [1, 2]


async def test_a_pod_has_one_event_with_what_it_waits_for_now() -> None:
    """A message names the next attempt, so it changes for hours. `kubectl describe pod` showed all of them."""
    api = Api()
    recorder = api.recorder()

    def shown() -> list[tuple[str, int, object]]:
        return [(event["message"], event["count"], event["metadata"]["annotations"]) for event in api.events.values()]

    for number, message in enumerate(["at ten", "at eleven", "at ten"], start=1):
        annotations = {"says": message}
        assert await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, message, annotations=annotations)
        assert shown() == [(message, number, annotations)]
        assert not await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, message, annotations=annotations)
    api.time += 300
    assert await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, "at ten")
    assert shown() == [("at ten", 4, None)]


async def test_a_changed_message_is_one_request_and_an_expired_event_is_made_again() -> None:
    """In a shortage, the messages of thousands of pods change at once."""
    api = Api()
    recorder = api.recorder()
    await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, "at ten")
    await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, "at eleven")
    assert api.requests == ["create", "patch"]
    api.events.clear()
    assert await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, "at twelve")
    assert [(event["message"], event["count"]) for event in api.events.values()] == [("at twelve", 1)]


async def test_another_replica_continues_the_count() -> None:
    api = Api()
    await api.recorder().publish(NODE, EventReason.DISRUPTED, "x")
    await api.recorder().publish(NODE, EventReason.DISRUPTED, "x")
    assert [event["count"] for event in api.events.values()] == [2]


async def test_n15_311_an_event_refers_to_its_object_and_lives_in_its_namespace() -> None:
    api = Api()
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}
    await api.recorder().publish(NODE, EventReason.FAILED_DRAINING, "x")
    await api.recorder().publish(pod, EventReason.NOMINATED, "x" * 5000)
    node_event, pod_event = api.events.values()
    assert node_event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    assert (node_event["metadata"]["namespace"], node_event["type"]) == ("default", "Warning")
    assert pod_event["metadata"]["namespace"] == "ns"
    assert len(pod_event["message"]) == 1024
    assert pod_event["source"] == {"component": "karpenter"}


async def test_what_a_message_says_for_programs_is_in_annotations_and_no_event_has_empty_ones() -> None:
    api = Api()
    await api.recorder().publish(NODE, EventReason.FAILED_SCHEDULING, "so it is", annotations={labels.NO_PLACE: "{}"})
    await api.recorder().publish(NODE, EventReason.DISRUPTED, "so it is")
    with_parts, without = (event["metadata"] for event in api.events.values())
    assert with_parts["annotations"] == {labels.NO_PLACE: "{}"}
    assert "annotations" not in without


async def test_nominations_are_limited_to_a_burst_of_ten_and_five_a_second() -> None:
    api = Api()
    recorder = api.recorder()
    assert sum([await recorder.publish(NODE, EventReason.NOMINATED, str(number)) for number in range(20)]) == 10
    api.time += 1
    assert sum([await recorder.publish(NODE, EventReason.NOMINATED, str(number)) for number in range(20, 40)]) == 5


async def test_evt02_unconsolidatable_nodes_are_reported_in_turn_and_every_15_minutes() -> None:
    """A large cluster has thousands of them. Those that were told of already do not use the rate up."""
    api = Api()
    recorder = api.recorder()

    async def told(names: range) -> int:
        """On how many nodes both events were written: that about the NodeClaim and that about the Node."""
        about = [reference(kind, f"{number}") for number in names for kind in (NODECLAIMS, NODES)]
        return sum([await recorder.publish(subject, EventReason.UNCONSOLIDATABLE, "why") for subject in about]) // 2

    assert await told(range(100)) == 20
    api.time += 100
    assert await told(range(100)) == 20
    assert await told(range(40)) == 0
    api.time += 801
    assert await told(range(20)) == 20


async def test_a_refused_event_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    api.error = ForbiddenError(403, "Forbidden", "events are not for you")
    assert not await api.recorder().publish(NODE, EventReason.DISRUPTED, "x")
    assert any("events are not for you" in str(vars(record).get("error")) for record in caplog.records)


@pytest.mark.parametrize("status", [0, 401, 408, 429, 503])
async def test_an_event_that_an_outage_swallowed_is_written_when_it_is_published_again(status: int) -> None:
    api = Api()
    recorder = api.recorder()
    api.error = ApiError(status, "Failure", "the API server is busy, away, or a token has expired")
    assert not await recorder.publish(NODE, EventReason.HELD_BY_FINALIZER, "x")
    api.error = None
    assert await recorder.publish(NODE, EventReason.HELD_BY_FINALIZER, "x")
    assert len(api.events) == 1


async def test_an_event_that_is_published_once_is_written_after_an_outage() -> None:
    """Most are: what they say is true once, such as that a command waits for approval."""
    api = Api()
    recorder = api.recorder()
    api.error = ApiError(429, "TooManyRequests", "slow down")
    assert not await recorder.publish(NODE, EventReason.HELD_BY_FINALIZER, "x")
    await asyncio.sleep(RETRY_AFTER[0] + 1)
    assert api.events == {}
    api.error = None
    await asyncio.sleep(RETRY_AFTER[1])
    assert [event["count"] for event in api.events.values()] == [1]
    assert not await recorder.publish(NODE, EventReason.HELD_BY_FINALIZER, "x"), "its window has begun"
    written = list(api.requests)
    await asyncio.sleep(sum(RETRY_AFTER))
    assert api.requests == written


async def test_what_is_published_again_before_the_retry_is_written_once() -> None:
    api = Api()
    recorder = api.recorder()
    api.error = ApiError(503, "ServiceUnavailable", "etcd is away")
    for message in ("at ten", "at eleven"):
        assert not await recorder.publish(NODE, EventReason.DISRUPTED, message)
    api.error = None
    assert await recorder.publish(NODE, EventReason.DISRUPTED, "at eleven")
    await asyncio.sleep(sum(RETRY_AFTER))
    shown = sorted((event["message"], event["count"]) for event in api.events.values())
    assert shown == [("at eleven", 1), ("at ten", 1)]


async def test_what_a_pod_waits_for_is_not_written_late_because_the_next_plan_says_it_again() -> None:
    """By then another leader may have written what holds now into the same Event."""
    api = Api()
    recorder = api.recorder()
    api.error = ApiError(503, "ServiceUnavailable", "etcd is away")
    assert not await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, "at ten")
    api.error = None
    await asyncio.sleep(sum(RETRY_AFTER))
    assert api.events == {}
    assert await recorder.publish(NODE, EventReason.FAILED_SCHEDULING, "at ten"), "it was not suppressed"


async def test_a_long_outage_gets_few_retries_and_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    recorder = api.recorder()
    api.error = ApiError(503, "ServiceUnavailable", "etcd is away")
    await recorder.publish(NODE, EventReason.DISRUPTED, "x")
    await asyncio.sleep(3600)
    assert len(api.requests) == 1 + len(RETRY_AFTER)
    assert [record.getMessage() for record in caplog.records] == ["The worker failed to write an Event"]
    for number in range(2 * MOST_RETRIED):
        assert not await recorder.publish(NODE, EventReason.DISRUPTED, str(number))
    api.requests.clear()
    await asyncio.sleep(RETRY_AFTER[0] + 1)
    assert len(api.requests) == MOST_RETRIED
