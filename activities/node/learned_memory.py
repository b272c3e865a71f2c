"""Keeps the memory that nodes report, and other amounts that differ from what was planned, on their EC2NodeClass.

Plans count with them (AWS-061, ACT-10).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from activities import loggers
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES
from tenon.apis import labels
from tenon.apis.json_object import field_at
from tenon.ec2.types.learned_amounts import differing, with_amounts
from tenon.ec2.types.learned_memory import with_figure
from tenon.ec2.types.learned_storage import with_storage
from tenon.kube.claim_record import ClaimRecord
from tenon.resources import EPHEMERAL_STORAGE, MEMORY, parse_resources

log = loggers.NODECLAIM_LIFECYCLE

REMEMBERED_SECONDS = 300.0
"""How long a process trusts that a class still has a figure that it read there. A class that was deleted and created
again has lost it, and a NodeClaim does not name the UID of its class."""
MOST = 5000

_News = Callable[[Mapping[str, str], Sequence[str]], str | None]
"""Gets the annotations of a class and its images. Returns the new value of an annotation, or None if it stays."""


class LearnedMemory:
    """Learns from nodes, and asks the API server only for what this process has not seen lately."""

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._learned_at: dict[tuple[str, str, str, str], float] = {}

    async def learn(self, claim: ClaimRecord, node: Mapping[str, Any]) -> None:
        """Write to the class what the node teaches, if it is news there.

        A failure is logged, and the next node of the type is recorded.
        """
        instance_type = claim.labels.get(labels.INSTANCE_TYPE, "")  # a kubelet may write that label of its Node
        memory = _amount(node, "capacity", MEMORY)

        def with_memory(annotations: Mapping[str, str], images: Sequence[str]) -> str | None:
            return with_figure(annotations, images, claim.image_id, instance_type, memory)

        if instance_type and memory:
            await self._learn(claim, labels.LEARNED_MEMORY, instance_type, str(memory), with_memory)
        planned = _amount(claim.body, "allocatable", EPHEMERAL_STORAGE)
        storage = _amount(node, "allocatable", EPHEMERAL_STORAGE)

        def with_less(annotations: Mapping[str, str], images: Sequence[str]) -> str | None:
            return with_storage(annotations, images, claim.image_id, planned, storage)

        if 0 < storage < planned:
            await self._learn(claim, labels.LEARNED_STORAGE, str(planned), str(storage), with_less)
        expected, reported = (parse_resources(field_at(of, "status", "allocatable")) for of in (claim.body, node))
        different = list(differing(expected, reported)) if expected and reported else []

        def with_others(annotations: Mapping[str, str], images: Sequence[str]) -> str | None:
            return with_amounts(annotations, images, claim.image_id, instance_type, expected, reported)

        if instance_type and different:
            await self._learn(claim, labels.LEARNED_AMOUNTS, instance_type, str(different), with_others)

    async def _learn(self, claim: ClaimRecord, key: str, of: str, amount: str, news: _News) -> None:
        """Write an annotation, unless this process has seen the same amount lately."""
        figure = claim.node_class, claim.image_id, of, amount
        if not all(figure) or self._clock() < self._learned_at.get(figure, 0.0):
            return
        try:
            await self._write(claim.node_class, key, news)
        except ApiError as error:
            log.info(
                "The worker failed to record what a node reports and retries with the next node",
                extra={"nodeclaim": claim.name, "ec2nodeclass": claim.node_class, "error": str(error)},
            )
            return
        if len(self._learned_at) >= MOST:
            self._learned_at.clear()
        self._learned_at[figure] = self._clock() + REMEMBERED_SECONDS

    async def _write(self, name: str, key: str, news: _News) -> None:
        node_class = await self._kube.get(EC2NODECLASSES, name)
        if node_class is None:
            return

        def compute(present: Mapping[str, Any]) -> dict[str, Any]:
            images = [str(image.get("id")) for image in field_at(present, "status", "amis") or []]
            text = news(field_at(present, "metadata", "annotations") or {}, images)
            return {"metadata": {"annotations": {key: text}}} if text is not None else {}

        await change(
            self._kube, EC2NODECLASSES, name, compute, uid=node_class["metadata"]["uid"], read_object=node_class
        )


def _amount(of: Mapping[str, Any], kind: str, resource: str) -> int:
    return parse_resources(field_at(of, "status", kind)).get(resource, 0)
