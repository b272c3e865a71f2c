"""Versions of nodes: what drift compares, under a name, and with all that a launch needs, so that it can be used later.

A version covers the template of a NodePool, the spec of its EC2NodeClass, and what that selected in the account. It is
stored as a ControllerRevision, as a DaemonSet's versions are. Nothing in it is a reference to something that a user may
change afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenon.apis import labels
from tenon.apis.common import ObjectMeta
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus
from tenon.apis.hashing import UNHASHED_SELECTORS, digest_of, plain_fields
from tenon.apis.nodepool import NodeClaimTemplate, NodePool
from tenon.ec2.nodeclass.status import not_ready, readiness_unknown
from tenon.errors import TenonError
from tenon.evolve import evolve
from tenon.kube.claim_record import class_key_of

MAX_REVISIONS = 10
"""How many versions of a NodePool are kept, in addition to those that are in use."""
MAX_BYTES = 1_000_000
"""How large a version may be. etcd takes 1.5 MB for an object, and its metadata needs a part of that."""
DIGEST_LENGTH = 10
_COMPARED_STATUS = ("amis", "security_groups", "subnets", "placement_group")
_KEPT_STATUS = (*_COMPARED_STATUS, "instance_profile", "conditions")
_BY_EFFECT = UNHASHED_SELECTORS - {"capacity_reservation_selector_terms", "ip_prefix_count"}
"""Fields of an EC2NodeClass of which only the effect is compared, such as the AMIs that its terms select."""


class RevisionTooLargeError(TenonError):
    """A NodePool and its EC2NodeClass are too large for one ControllerRevision."""


class UnreadableRevisionError(TenonError):
    """A ControllerRevision does not hold a version of a NodePool."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a NodePool."""

    pool: str
    digest: str
    """Names what drift compares. Two versions with the same digest make the same nodes."""
    template: NodeClaimTemplate = field(compare=False, repr=False)
    kubelet: str = field(compare=False, repr=False)
    """The NodePool's own kubelet settings, of its v1beta1 annotation; empty without it."""
    class_name: str
    class_generation: int = field(compare=False)
    class_spec: EC2NodeClassSpec = field(compare=False, repr=False)
    class_status: EC2NodeClassStatus = field(compare=False, repr=False)
    """Only what a launch reads."""
    number: int = field(default=0, compare=False)
    """The place in the order in which the versions of the NodePool were recorded; 0 before that."""

    @property
    def name(self) -> str:
        """The name of its ControllerRevision."""
        return revision_name(self.pool, self.digest)


def revision_name(pool: str, digest: str) -> str:
    """Return the name of the ControllerRevision of a version."""
    return f"{pool}-{digest}"


def revision_of(pool: NodePool, node_class: EC2NodeClass) -> Revision:
    """Return the version that a NodePool and its EC2NodeClass make now."""
    template = pool.spec.template
    kubelet = pool.metadata.annotations.get(labels.V1BETA1_KUBELET, "")
    status = node_class.status
    compared = {
        "template": plain_fields(template),
        "kubelet": kubelet,
        "class": node_class.metadata.name,
        "spec": plain_fields(node_class.spec, _BY_EFFECT),
        "family": node_class.spec.resolved_family,
        # The first image that suits a node is the one that it gets, so their order counts, unlike that of other lists.
        "amis": [
            {"place": place, "id": ami.id, "requirements": [plain_fields(term) for term in ami.requirements]}
            for place, ami in enumerate(status.amis)
        ],
        "securityGroups": [group.id for group in status.security_groups],
        "subnets": [subnet.id for subnet in status.subnets],
        "placementGroup": status.placement_group.id if status.placement_group is not None else "",
    }
    kept_fields = {name: getattr(status, name) for name in _KEPT_STATUS}
    return Revision(
        pool=pool.metadata.name,
        digest=digest_of(compared)[:DIGEST_LENGTH],
        template=template,
        kubelet=kubelet,
        class_name=node_class.metadata.name,
        class_generation=node_class.metadata.generation,
        class_spec=node_class.spec,
        class_status=evolve(EC2NodeClassStatus(), **kept_fields),
    )


def newest_revision(pool: NodePool, node_class: EC2NodeClass | None) -> Revision | None:
    """Return the version that the specs describe; None while the EC2NodeClass is not resolved and ready for it."""
    if node_class is None or not_ready(node_class) or readiness_unknown(node_class):
        return None
    return revision_of(pool, node_class)


def effective_pool(pool: NodePool, revision: Revision) -> NodePool:
    """Return the NodePool as it launches nodes of this version. What is no part of a version stays as it is now.

    Its annotation `labels.REVISION` says the version. NodeClaims get it from there.
    """
    annotations = {key: value for key, value in pool.metadata.annotations.items() if key != labels.V1BETA1_KUBELET}
    if revision.kubelet:
        annotations[labels.V1BETA1_KUBELET] = revision.kubelet
    annotations[labels.REVISION] = revision.digest
    return evolve(
        pool,
        metadata=evolve(pool.metadata, annotations=annotations),
        spec=evolve(pool.spec, template=revision.template),
    )


def effective_class(node_class: EC2NodeClass, revision: Revision) -> EC2NodeClass:
    """Return the EC2NodeClass as nodes of this version are launched from it.

    Capacity reservations come and go with time, so they are those of today. The class was ready when the version was
    recorded, and a change of its spec that makes it not ready concerns only later versions.
    """
    return evolve(
        node_class,
        metadata=evolve(node_class.metadata, generation=revision.class_generation),
        spec=revision.class_spec,
        status=evolve(revision.class_status, capacity_reservations=node_class.status.capacity_reservations),
    )


def without_revision(metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata without a version that a user wrote into it. Only Tenon says which version is launched."""
    if labels.REVISION not in metadata.annotations:
        return metadata
    annotations = {key: value for key, value in metadata.annotations.items() if key != labels.REVISION}
    return evolve(metadata, annotations=annotations)


def class_key(pool: NodePool) -> str:
    """Return the key under which a cluster has the EC2NodeClass of a NodePool's version: its name, and the version."""
    name = pool.spec.template.spec.node_class_ref.name
    digest = pool.metadata.annotations.get(labels.REVISION, "")
    return class_key_of(name, pool.metadata.name, digest)


def to_object(revision: Revision, namespace: str, number: int) -> dict[str, Any]:
    """Return the ControllerRevision of a version.

    Args:
        revision: the version.
        namespace: the namespace of Tenon.
        number: a number that is higher than that of each earlier version of the NodePool.

    Raises:
        RevisionTooLargeError: the API server would not store it.
    """
    data = {
        "nodePool": revision.pool,
        "digest": revision.digest,
        "template": revision.template.to_dict(),
        "kubelet": revision.kubelet,
        "nodeClass": {
            "name": revision.class_name,
            "generation": revision.class_generation,
            "spec": revision.class_spec.to_dict(),
            "status": revision.class_status.to_dict(),
        },
    }
    size = len(json.dumps(data, separators=(",", ":")).encode())
    if size > MAX_BYTES:
        raise RevisionTooLargeError(
            f"the version of NodePool {revision.pool} with EC2NodeClass {revision.class_name} has {size} bytes, and at "
            f"most {MAX_BYTES} can be recorded: shorten the user data, or select fewer AMIs"
        )
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision.name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "tenon", labels.NODEPOOL: revision.pool},
        },
        "revision": number,
        "data": data,
    }


def from_object(body: Mapping[str, Any]) -> Revision:
    """Return the version that a ControllerRevision holds.

    Raises:
        UnreadableRevisionError: it holds none.
    """
    name = (body.get("metadata") or {}).get("name")
    try:
        data = body["data"]
        node_class = data["nodeClass"]
        return Revision(
            pool=str(data["nodePool"]),
            digest=str(data["digest"]),
            template=NodeClaimTemplate.model_validate(data["template"]),
            kubelet=str(data.get("kubelet") or ""),
            class_name=str(node_class["name"]),
            class_generation=int(node_class.get("generation") or 0),
            class_spec=EC2NodeClassSpec.model_validate(node_class["spec"]),
            class_status=EC2NodeClassStatus.model_validate(node_class.get("status") or {}),
            number=int(body.get("revision") or 0),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRevisionError(
            f"ControllerRevision {name} holds no version of a NodePool ({type(error).__name__}): delete it"
        ) from error


def superfluous(revisions: Iterable[Revision], in_use: Collection[str]) -> list[Revision]:
    """Return the versions of one NodePool to delete: the oldest beyond `MAX_REVISIONS` of which none is in use.

    ``in_use`` holds the digests that a rollout, a NodeClaim or the newest specs name.
    """
    ordered = sorted(revisions, key=lambda revision: (revision.number, revision.digest))
    excess = len(ordered) - MAX_REVISIONS
    unused = [revision for revision in ordered if revision.digest not in in_use]
    return unused[: max(0, excess)]
