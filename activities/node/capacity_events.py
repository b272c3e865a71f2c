"""Tells the pods of a NodeClaim that EC2 has no capacity for it (N15-312).

Users look at their pods first. A pod of a claim that was refused waits for the next plan, and its event says why.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.event_rate import EventRate
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.rate_limit import RequestClass, requests_as
from activities.kubernetes.resources import PODS
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.planned_pods import PlannedPod, planned_pods
from tenon.kube.pod_decode import pod_of

log = loggers.EVENTS

REASON = EventReason.INSUFFICIENT_CAPACITY
PER_SECOND, BURST = 5.0, 10.0
SILENT_SECONDS = 120.0
"""For so long, a pod gets no second event, whatever it says."""
_REMEMBERED = 20_000


class CapacityEvents:
    """Publishes the events. The limit is asked before a pod is read, because a claim may have a hundred pods."""

    def __init__(self, kube: Kube, recorder: EventPublisher, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns monotonic seconds."""
        self._kube = kube
        self._recorder = recorder
        self._clock = clock
        self._rate = EventRate(PER_SECOND, BURST)
        self._silent_until: OrderedDict[str, float] = OrderedDict()
        """By pod UID."""

    async def publish(self, claim: ClaimRecord, message: str) -> None:
        """Publish an event on each pod that the claim was planned for and that still waits, within the limit."""
        try:
            with requests_as(RequestClass.EVENT):
                for planned in planned_pods(claim.annotations):
                    now = self._clock()
                    if self._silent_until.get(planned.uid, now) > now:
                        continue
                    if not self._rate.allows(now):
                        return
                    await self._tell(planned, f"NodeClaim {claim.name} did not launch: {message}")
        except ApiError as error:
            log.warning(
                "The worker failed to read a pod that it has an Event for",
                extra={"nodeclaim": claim.name, "reason": REASON, "error": str(error)},
            )

    async def _tell(self, planned: PlannedPod, message: str) -> None:
        body = await self._kube.get(PODS, planned.name, planned.namespace)
        if body is None or body["metadata"].get("uid") != planned.uid:
            return
        try:
            pod = pod_of(body)
        except ValueError:
            return  # what cannot be read was not planned
        if pod.node_name or pod.terminal or pod.deleting:
            return
        self._silent_until[planned.uid] = self._clock() + SILENT_SECONDS
        self._silent_until.move_to_end(planned.uid)
        while len(self._silent_until) > _REMEMBERED:
            self._silent_until.popitem(last=False)
        await self._recorder.publish(body, REASON, message)
