"""Records on NodeClaims in which subnet and security groups their instances are, for drift.

The launch writes this too. The sweep corrects it from what it has read of EC2 anyway: for nodes that an older release
or another controller launched, and after somebody has changed the security groups of an instance.
"""

from __future__ import annotations

from collections.abc import Iterator

from activities import loggers
from activities.heartbeat import with_heartbeat
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.nodeclaims import annotate_claim
from tenon.cleanup.facts import Observations, ObservedClaim
from tenon.ec2.launch.network_annotations import network_annotations
from tenon.messages.base import ClaimRef

log = loggers.HOUSEKEEPING

MAX_RECORDED = 200
"""Maximum number of NodeClaims to correct in one sweep. The next sweeps correct the others."""
CONCURRENCY = 5


async def record_networks(kube: Kube, cluster: str, observations: Observations) -> None:
    """Correct the NodeClaims that do not say where their instance is. A failure is left to the next sweep."""

    async def record(claim: ObservedClaim, annotations: dict[str, str]) -> None:
        ref = ClaimRef(cluster=cluster, name=claim.name, uid=claim.uid)
        try:
            await annotate_claim(kube, ref, annotations)
        except ApiError as error:
            log.warning(
                "The sweep failed to record the network of an instance",
                extra={"nodeclaim": claim.name, "error": str(error)},
            )

    todo = [pair for pair, _ in zip(_outdated(observations), range(MAX_RECORDED), strict=False)]
    await with_heartbeat(bounded(todo, CONCURRENCY, lambda pair: record(*pair)))


def _outdated(observations: Observations) -> Iterator[tuple[ObservedClaim, dict[str, str]]]:
    by_id = {instance.id: instance for instance in observations.instances or ()}
    for claim in observations.managed_claims:
        instance = by_id.get(claim.instance_id)
        if instance is None or claim.deleted_at is not None or claim.launched_at is None:
            continue
        annotations = network_annotations(instance.subnet_id, instance.security_group_ids)
        if any(claim.network.get(key) != value for key, value in annotations.items()):
            yield claim, annotations
