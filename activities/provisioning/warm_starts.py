"""The mark that has warm nodes started which a plan uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from activities import loggers
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.apis.warm import STARTING, STOPPED
from tenon.kube import object_json
from tenon.kube.pod import Pod
from tenon.kube.stopped_times import started_now
from tenon.kube.timestamps import format_instant
from tenon.provisioning.warm_nodes import to_start

log = loggers.PROVISIONER


class WarmStarts:
    """Marks the warm nodes that a plan uses."""

    def __init__(self, kube: Kube, view: ClusterView, now: Callable[[], datetime] = utc_now) -> None:
        self._kube = kube
        self._view = view
        self._now = now

    async def start(self, placements: Mapping[str, Iterable[Pod]]) -> None:
        """Mark the stopped nodes that a plan has put pods on.

        If the mark of one cannot be written, the plan's promise to its pods runs out, and they are planned again.
        """
        if not placements:
            return
        for name in to_start(placements, self._view.warm_nodes()):
            claim = self._view.warm_claim(name)
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
