"""Keeps the memory that nodes report on their EC2NodeClass, for plans to count with (AWS-061, ACT-10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from activities import loggers
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES
from tenon.apis import labels
from tenon.apis.json_object import field_at
from tenon.ec2.learned_memory import with_figure
from tenon.kube.claim_record import ClaimRecord
from tenon.resources import MEMORY, parse_resources

log = loggers.NODECLAIM_LIFECYCLE

REMEMBERED_SECONDS = 3600.0
"""How long a process does not look again at a class for a figure that it has seen there."""
MOST = 5000


class LearnedMemory:
    """Learns from nodes, and asks the API server only for what this process has not seen lately."""

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._seen: dict[tuple[str, str, str, int], float] = {}

    async def learn(self, claim: ClaimRecord, node: Mapping[str, Any]) -> None:
        """Write the node's memory to its class if it is news there.

        A failure is logged, and the next node of the type is recorded.
        """
        instance_type = claim.labels.get(labels.INSTANCE_TYPE, "")  # a kubelet may write that label of its Node
        memory = parse_resources(field_at(node, "status", "capacity")).get(MEMORY, 0)
        figure = claim.node_class, claim.image_id, instance_type, memory
        if not all(figure) or self._clock() < self._seen.get(figure, 0.0):
            return
        try:
            await self._write(*figure)
        except ApiError as error:
            log.info(
                "The worker failed to record the memory of a node and retries with the next node",
                extra={"nodeclaim": claim.name, "ec2nodeclass": claim.node_class, "error": str(error)},
            )
            return
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[figure] = self._clock() + REMEMBERED_SECONDS

    async def _write(self, name: str, image: str, instance_type: str, memory: int) -> None:
        found = await self._kube.get(EC2NODECLASSES, name)
        if found is None:
            return

        def compute(present: Mapping[str, Any]) -> dict[str, Any]:
            images = [str(one.get("id")) for one in field_at(present, "status", "amis") or []]
            annotations = field_at(present, "metadata", "annotations") or {}
            text = with_figure(annotations, images, image, instance_type, memory)
            return {"metadata": {"annotations": {labels.LEARNED_MEMORY: text}}} if text is not None else {}

        await change(self._kube, EC2NODECLASSES, name, compute, uid=found["metadata"]["uid"], seen=found)
