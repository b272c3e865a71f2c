"""The EC2NodeClass of a launch whose NodePool is under a rollout: in the version that the NodeClaim was made for."""

from __future__ import annotations

from activities.ec2.errors import NodeClassReadinessUnknownError
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONTROLLERREVISIONS, NODEPOOLS
from activities.kubernetes.shared_read import SharedRead
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.kube.claim_record import ClaimRecord
from tenon.rollout.revisions import UnreadableRevisionError, effective_class, from_object, revision_name, revision_of


class LaunchVersions:
    """Reads recorded versions for launches. A burst of launches of one version reads it once."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        """``namespace`` is that of Tenon, where versions are recorded."""
        self._kube = kube
        self._revisions = SharedRead(lambda name: kube.get(CONTROLLERREVISIONS, name, namespace), from_object)

    async def of(self, claim: ClaimRecord, node_class: EC2NodeClass) -> EC2NodeClass:
        """The class in the version of a NodeClaim; as it is now for a claim that names none.

        Raises:
            NodeClassReadinessUnknownError: the version is not recorded. It may be a moment later.
        """
        digest = claim.annotations.get(labels.REVISION)
        if not digest:
            return node_class
        name = revision_name(claim.pool, digest)
        try:
            revision = await self._revisions.get(name)
        except UnreadableRevisionError as error:
            raise NodeClassReadinessUnknownError(str(error)) from error
        if revision is not None:
            return effective_class(node_class, revision)
        if await self._is_newest(claim, digest, node_class):
            return node_class
        raise NodeClassReadinessUnknownError(
            f"ControllerRevision {name} does not exist, which has the version of the NodePool that the NodeClaim was "
            "made for: delete the NodeClaim if it stays so"
        )

    async def _is_newest(self, claim: ClaimRecord, digest: str, node_class: EC2NodeClass) -> bool:
        """Whether the specs still make the version of the claim, which the worker has not recorded yet."""
        body = await self._kube.get(NODEPOOLS, claim.pool)
        pool = parse(NodePool, body)[0] if body is not None else None
        return pool is not None and revision_of(pool, node_class).digest == digest
