"""The step "await volume detachment": do not terminate an instance while volumes of its drained pods are attached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import msgspec

from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import Clock, ConditionUpdate, read_claim, update_conditions
from activities.kubernetes.resources import PVCS, VOLUMEATTACHMENTS
from activities.node.nodes import find_node, pods_on
from tenon.apis.nodeclaim import VOLUMES_DETACHED
from tenon.kube.event_reasons import EventReason
from tenon.messages.node_steps import DetachInput, DetachResult
from tenon.node import drain
from tenon.sentences import counted

Sleep = Callable[[float], Awaitable[None]]

POLL_SECONDS = 2.0


class _Metadata(msgspec.Struct):
    name: str


class _Source(msgspec.Struct):
    volume: str | None = msgspec.field(default=None, name="persistentVolumeName")


class _Attached(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")
    source: _Source = msgspec.field(default_factory=_Source)


class Attachment(msgspec.Struct):
    """The fields of a VolumeAttachment that name its volume and its node. The API has no selector for them."""

    metadata: _Metadata
    spec: _Attached


async def attached_volumes(kube: Kube, node_name: str, now: datetime) -> list[str]:
    """The names of the attachments to wait for: those on the node, except those of pods that the drain leaves there.

    An inline volume has no PersistentVolume. It may belong to a pod that stays, so it is not waited for.
    """
    everything = await kube.shared_list(VOLUMEATTACHMENTS, Attachment)
    attachments = [
        attachment
        for attachment in everything
        if attachment.spec.node_name == node_name and attachment.spec.source.volume
    ]
    if not attachments:
        return []
    volumes_of_staying_pods: set[str] = set()
    for pod in await pods_on(kube, node_name):
        if drain.is_drainable(pod, now):
            continue
        for use in pod.volumes:
            namespace, _, name = use.pvc.partition("/")
            pvc = await kube.get(PVCS, name, namespace)
            volumes_of_staying_pods.add(((pvc or {}).get("spec") or {}).get("volumeName") or "")
    return sorted(
        attachment.metadata.name
        for attachment in attachments
        if attachment.spec.source.volume not in volumes_of_staying_pods
    )


async def detach_volumes(
    kube: Kube,
    recorder: EventPublisher,
    detach_input: DetachInput,
    now: Clock,
    sleep: Sleep = asyncio.sleep,
) -> DetachResult:
    """Wait until the volumes are detached, ``budget_seconds`` have passed, or the grace period is over."""
    claim = await read_claim(kube, detach_input.claim)
    force_at = drain.forced_from(detach_input.force_at, claim)
    node = (await find_node(kube, detach_input, claim)).node
    until = now() + timedelta(seconds=detach_input.budget_seconds)
    reported = False
    while node is not None:
        name = node["metadata"]["name"]
        attached = await attached_volumes(kube, name, now())
        if not attached:
            break
        text = f"{counted(len(attached), 'volume')} still attached to Node {name}: {', '.join(attached[:3])}"
        if force_at is not None and now() >= force_at:
            update = ConditionUpdate(VOLUMES_DETACHED, "False", "TerminationGracePeriodElapsed", text)
            await update_conditions(kube, detach_input.claim, [update], now)
            return DetachResult(detached=True, attached=len(attached))
        if not reported:
            update = ConditionUpdate(VOLUMES_DETACHED, "Unknown", EventReason.AWAITING_VOLUME_DETACHMENT.value, text)
            await update_conditions(kube, detach_input.claim, [update], now)
            await recorder.publish(node, EventReason.AWAITING_VOLUME_DETACHMENT, text)
            reported = True
        seconds_left = (until - now()).total_seconds()
        if seconds_left <= 0:
            return DetachResult(attached=len(attached))
        await sleep(min(POLL_SECONDS, seconds_left))
    await update_conditions(kube, detach_input.claim, [ConditionUpdate(VOLUMES_DETACHED, "True")], now)
    return DetachResult(detached=True)
