"""What a guide remembers of a switch between its steps: a ConfigMap next to Tenon's Deployment.

Temporal does not have it, because a switch goes on and goes back also while Tenon cannot reach Temporal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError
from activities.kubernetes.resources import CONFIGMAPS
from tenon.errors import TenonError
from tenon.migration.switch import Switch

NAME = "tenon-switch"
STATE, INSTANCES = "state", "instances"
LARGEST = 900_000
"""Characters of the instances that are recorded at most: etcd refuses objects of more than about 1.5 MB."""


class SwitchMemoryError(TenonError):
    """What is remembered cannot be read. The message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A switch, and what the cluster had when it began."""

    switch: Switch
    karpenter: str
    """The Deployment, as NAMESPACE/NAME."""
    instances: Mapping[str, str] | None
    """NodeClaim -> instance; None if the cluster has too many to record."""
    unready: Sequence[str] = field(default=())
    """NodePools that were not Ready."""


class _State(msgspec.Struct):
    switch: Switch
    karpenter: str
    unready: list[str]


async def read(kube: Kube, namespace: str) -> Memory | None:
    """Return what is remembered; None if no switch was begun.

    Raises:
        SwitchMemoryError: somebody edited it.
    """
    config_map = await kube.get(CONFIGMAPS, NAME, namespace)
    if config_map is None:
        return None
    data = config_map.get("data") or {}
    try:
        state = msgspec.json.decode(data[STATE], type=_State)
        instances = json.loads(data[INSTANCES]) if INSTANCES in data else None
    except (KeyError, ValueError) as error:
        raise SwitchMemoryError(
            f"The ConfigMap {namespace}/{NAME}, in which a switch is remembered, cannot be read ({error}): look at "
            "which controller runs, and delete the ConfigMap."
        ) from error
    return Memory(state.switch, state.karpenter, instances, state.unready)


async def write(kube: Kube, namespace: str, memory: Memory) -> None:
    """Remember the switch."""
    state = _State(memory.switch, memory.karpenter, list(memory.unready))
    data = {STATE: msgspec.json.encode(state).decode()}
    if memory.instances is not None:
        text = json.dumps(dict(memory.instances), separators=(",", ":"))
        if len(text) <= LARGEST:
            data[INSTANCES] = text
    metadata = {"name": NAME, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "tenon"}}
    if await kube.patch(CONFIGMAPS, NAME, {"data": {INSTANCES: None, **data}}, namespace=namespace) is not None:
        return
    try:
        await kube.create(CONFIGMAPS, {"metadata": metadata, "data": data}, namespace)
    except ConflictError:  # another guide of the same switch was faster
        await kube.patch(CONFIGMAPS, NAME, {"data": data}, namespace=namespace)
