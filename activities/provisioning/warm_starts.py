"""Which warm nodes plans may use, and the mark that has them started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.apis.warm import STARTING, STOPPED
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.stopped_times import started_now
from tenon.kube.timestamps import format_instant
from tenon.provisioning.warm_nodes import to_start, with_warm_nodes
from tenon.scheduling.model import Problem

log = loggers.PROVISIONER


class WarmView(Protocol):
    """The warm nodes of a cluster."""

    def warm_nodes(self) -> dict[str, str]:
        """The state of each warm node that stays and has a Node, by the Node's name."""

    def warm_claim(self, node_name: str) -> ClaimRecord | None:
        """The NodeClaim of a warm node; None if it is gone or leaves."""


class WarmStarts:
    """Adds the room of warm nodes to problems, and marks those that a plan uses."""

    def __init__(self, kube: Kube, view: WarmView | None = None, now: Callable[[], Any] = utc_now) -> None:
        """``view``: None if no NodePool can have warm nodes."""
        self._kube = kube
        self._view = view
        self._now = now

    def opened(self, problem: Problem) -> Problem:
        """The problem in which warm nodes take pods."""
        return problem if self._view is None else with_warm_nodes(problem, self._view.warm_nodes())

    async def start(self, placements: Mapping[str, Iterable[Pod]]) -> None:
        """Mark the stopped nodes that a plan has put pods on.

        If the mark of one cannot be written, the plan's promise to its pods runs out, and they are planned again.
        """
        view = self._view
        if view is None or not placements:
            return
        for name in to_start(placements, view.warm_nodes()):
            claim = view.warm_claim(name)
            if claim is None:
                continue
            try:
                await change(self._kube, NODECLAIMS, claim.name, self._mark, uid=claim.uid)
            except ApiError as error:
                log.warning(
                    "The provisioner failed to have a warm node started",
                    extra={"nodeclaim": claim.name, "node": name, "error": str(error)},
                )
            else:
                log.info("A plan uses a warm node", extra={"nodeclaim": claim.name, "node": name})

    def _mark(self, body: Mapping[str, Any]) -> dict[str, Any]:
        annotations, now = object_json.annotations(body), self._now()
        if object_json.is_deleting(body) or annotations.get(labels.WARM) != STOPPED:
            return {}
        marks = {labels.WARM: STARTING, labels.WARM_SINCE: format_instant(now), **started_now(annotations, now)}
        return {"metadata": {"annotations": marks}}
