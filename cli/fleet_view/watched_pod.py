"""A pod with the message in which kube-scheduler says why it has no node, for people who wait for it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tenon.kube.pod_decode import decode_pod
from tenon.kube.records import PodRecord
from tenon.kube.structs import Wire


class _PodCondition(Wire):
    type: str = ""
    status: str = ""
    message: str = ""


class _PodStatus(Wire):
    conditions: list[_PodCondition] | None = None


class _UnscheduledPod(Wire):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_unscheduled_pods = msgspec.json.Decoder(_UnscheduledPod)


@dataclass(frozen=True, slots=True)
class WatchedPod:
    """A pod, and what kube-scheduler says of it. The record of the worker's cache has no message."""

    record: PodRecord
    why: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.record.key

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.record.uid

    @property
    def resource_version(self) -> str:
        """The resource version that was decoded."""
        return self.record.resource_version


def decode_watched_pod(raw: bytes | msgspec.Raw) -> WatchedPod:
    """Decode a Pod.

    Raises:
        ValueError: the bytes are not a Pod, or contain a malformed quantity.
    """
    record = decode_pod(raw)
    if record.node_name or record.terminal:
        return WatchedPod(record)
    conditions = _unscheduled_pods.decode(raw).status.conditions or ()
    messages = [condition.message for condition in conditions if condition.type == "PodScheduled"]
    return WatchedPod(record, messages[0] if messages else "")
