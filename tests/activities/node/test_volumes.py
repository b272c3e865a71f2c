"""A drained node keeps its instance until its volumes are detached."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from activities.kubernetes.resources import PVCS, VOLUMEATTACHMENTS
from activities.node.volumes import detach_volumes
from tenon.messages.node_steps import DetachInput, DetachResult
from tests.activities.node.fake_kube import START
from tests.activities.node.world import PROVIDER_ID, REF, World, pod


def attachment(name: str, volume: str, on: str = "node-1") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": on, "attacher": "ebs.csi.aws.com", "source": {"persistentVolumeName": volume}},
    }


async def detach(world: World, **fields: Any) -> Any:
    detach_input = DetachInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", **fields)
    return await detach_volumes(world.kube, world.recorder, detach_input, world.clock, world.clock.sleep)


def with_volumes() -> World:
    """A drained node: one volume of a drained pod, one of a pod that stays because it tolerates the taint."""
    stays = pod(
        "agent",
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    )
    world = World().put_live().put_pods(stays)
    world.kube.add(PVCS, {"metadata": {"name": "c"}, "spec": {"volumeName": "pv-agent"}})
    world.kube.add(VOLUMEATTACHMENTS, attachment("va-agent", "pv-agent"))
    world.kube.add(VOLUMEATTACHMENTS, attachment("va-web", "pv-web"))
    world.kube.add(VOLUMEATTACHMENTS, attachment("va-elsewhere", "pv-x", on="node-2"))
    return world


async def test_detachment_waits_for_volumes_of_drained_pods_only() -> None:
    """TRM-07."""
    world = with_volumes()

    def detached() -> None:
        if world.clock.slept == 3:
            del world.kube.objects[("volumeattachments", "", "va-web")]

    world.clock.on_tick.append(detached)
    result = await detach(world)
    assert (result.detached, result.attached) == (True, 0)
    assert world.clock.slept == 3
    assert world.recorder.reasons() == ["AwaitingVolumeDetachment"]
    assert "va-web" in world.recorder.events[0][3]
    assert world.status_of("VolumesDetached")[0] == "True"


async def test_detachment_ends_with_its_budget_and_says_what_it_awaits() -> None:
    world = with_volumes()
    result = await detach(world, budget_seconds=10)
    assert (result.detached, result.attached) == (False, 1)
    assert world.clock() - START == timedelta(seconds=10)
    assert world.status_of("VolumesDetached") == ("Unknown", "AwaitingVolumeDetachment")
    assert world.clock.slept == 5


@pytest.mark.parametrize("is_written", [False, True], ids=["as it began", "by the claim now"])
async def test_detachment_is_skipped_after_the_grace_period(*, is_written: bool) -> None:
    world = with_volumes()
    written = {"karpenter.sh/nodeclaim-termination-timestamp": "2026-03-01T12:00:04Z"}
    world.claim["metadata"]["annotations"] |= written if is_written else {}
    result = await detach(world, force_at=None if is_written else START + timedelta(seconds=4))
    assert (result.detached, result.attached) == (True, 1)
    assert world.status_of("VolumesDetached") == ("False", "TerminationGracePeriodElapsed")


async def test_trm07_an_inline_volume_is_not_waited_for() -> None:
    """It has no PersistentVolume, so nothing says whether the pod that uses it stays."""
    world = World().put_live()
    inline = attachment("va-inline", "")
    inline["spec"]["source"] = {"inlineVolumeSpec": {"csi": {"driver": "inline.example.com", "volumeHandle": "v"}}}
    world.kube.add(VOLUMEATTACHMENTS, inline)
    assert await detach(world) == DetachResult(detached=True)
    assert world.clock.slept == 0
