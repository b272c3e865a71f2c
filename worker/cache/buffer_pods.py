"""The virtual pods of CapacityBuffers, as scheduling sees them. They are rebuilt only when their template changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import replace

from tenon.apis.structural import without_nulls
from tenon.kube.pod import Pod
from tenon.kube.pod_decode import pod_of
from tenon.provisioning.buffer_status import ResolvedBuffer
from tenon.provisioning.buffers import buffer_of, buffer_pod


class BufferPods:
    """Virtual pods by buffer. The UID of each pod encodes its buffer, a hash of its template, and its number."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, list[Pod]]] = {}

    def of(self, key: str, uid: str, resolved_buffer: ResolvedBuffer) -> list[Pod]:
        """The pods of a buffer (``namespace/name``), given what it resolved to.

        Raises:
            ValueError: the pod template cannot be read.
        """
        if resolved_buffer.template is None or not resolved_buffer.count:
            return []
        text = json.dumps(resolved_buffer.template, sort_keys=True, default=str)
        version = f"{uid}/{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        before, pods = self._pods.get(key, ("", []))
        pods = pods[: resolved_buffer.count] if before == version else []
        if len(pods) < resolved_buffer.count:
            pods += _more(key, version, resolved_buffer, len(pods))
        self._pods[key] = (version, pods)
        return pods

    def forget_others(self, keys: Collection[str]) -> None:
        """Forget the pods of all buffers except these."""
        self._pods = {key: pods for key, pods in self._pods.items() if key in keys}


def _more(key: str, version: str, resolved_buffer: ResolvedBuffer, first: int) -> list[Pod]:
    """The pods from number ``first`` on. They differ only in name and UID."""
    assert resolved_buffer.template is not None  # the caller checked
    namespace, _, name = key.partition("/")
    manifest = buffer_pod(name, namespace, resolved_buffer.template, 0)
    model = pod_of(without_nulls(manifest)).pod
    model = replace(model, buffer=buffer_of(manifest))
    stem = model.name.removesuffix("0")
    return [replace(model, name=f"{stem}{n}", uid=f"{version}/{n}") for n in range(first, resolved_buffer.count)]
