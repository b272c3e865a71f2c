"""EC2 has no capacity for a NodeClaim: its pods have an event about it (N15-312, N15-563)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from activities.kubernetes.resources import PODS
from activities.node.capacity_events import BURST, PER_SECOND, REASON, SILENT_SECONDS, CapacityEvents
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.launch import LaunchInput, LaunchResult
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder, stamp
from tests.activities.node.test_refusals import REQUEST, Refuser, waiting
from tests.activities.node.world import REF, claim, pod


def planned(names: Sequence[str]) -> ClaimRecord:
    body = claim()
    body["metadata"]["annotations"][labels.PLANNED_PODS] = ",".join(f"default/{name}=uid-{name}" for name in names)
    return ClaimRecord.of(body)


class Setting:
    """Pods that wait, and the events about them."""

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self.kube, self.recorder, self.time = FakeKube(Clock()), Recorder(), 1000.0
        for body in bodies:
            self.kube.add(PODS, body)
        self.events = CapacityEvents(cast("Any", self.kube), self.recorder, lambda: self.time)

    async def published(self, *names: str, message: str = "no m5.large") -> list[str]:
        """The pods that have an event after a claim for these was refused."""
        self.recorder.events.clear()
        await self.events.publish(planned(names), message)
        assert {event[2] for event in self.recorder.events} <= {REASON}
        return [event[1] for event in self.recorder.events]


async def test_n15_312_only_pods_that_still_wait_have_an_event() -> None:
    waits, bound, ended, leaves, other = (pod(name, on="") for name in ("waits", "bound", "ended", "leaves", "other"))
    bound["spec"]["nodeName"] = "node-1"
    ended["status"] = {"phase": "Failed"}
    leaves["metadata"]["deletionTimestamp"] = stamp(Clock()())
    other["metadata"]["uid"] = "of-a-later-pod"
    setting = Setting(waits, bound, ended, leaves, other)
    assert await setting.published("waits", "bound", "ended", "leaves", "other", "gone") == ["waits"]
    assert setting.recorder.events[0][3] == f"NodeClaim {REF.name} did not launch: no m5.large"


async def test_n15_312_a_pod_has_one_event_in_two_minutes_whatever_it_says() -> None:
    setting = Setting(pod("waits", on=""))
    assert await setting.published("waits") == ["waits"]
    setting.time += SILENT_SECONDS - 1
    assert await setting.published("waits", message="no c5.large either") == []
    setting.time += 1
    assert await setting.published("waits") == ["waits"]


async def test_n15_312_ten_events_at_once_then_five_a_second_and_no_pod_is_read_in_vain() -> None:
    names = [f"p{number:02}" for number in range(30)]
    setting = Setting(*(pod(name, on="") for name in names))
    assert await setting.published(*names) == names[: int(BURST)]
    assert len(setting.kube.gets) == BURST
    setting.time += 1
    assert await setting.published(*names) == names[int(BURST) : int(BURST + PER_SECOND)]


async def test_n15_312_a_launch_without_capacity_tells_its_pods() -> None:
    refusal = LaunchResult(reason=Reason.INSUFFICIENT_CAPACITY, message="no m5.large")
    annotations = {labels.PLANNED_PODS: "default/waits=uid-waits"}
    world, launching = waiting(Refuser(launch=refusal), annotations=annotations)
    world.kube.add(PODS, pod("waits", on=""))
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    published = [(event[0], event[1]) for event in world.recorder.events if event[2] == REASON]
    assert published == [("NodeClaim", REF.name), ("Pod", "waits")]
