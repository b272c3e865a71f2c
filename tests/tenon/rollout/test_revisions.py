"""Versions of nodes: what makes a new one, and that a stored one launches the same nodes later."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hash, nodepool_hash
from tenon.apis.nodepool import NodePool
from tenon.evolve import evolve
from tenon.rollout.revisions import (
    MAX_REVISIONS,
    RevisionTooLargeError,
    UnreadableRevisionError,
    class_key,
    effective_class,
    effective_pool,
    from_object,
    newest_revision,
    revision_of,
    superfluous,
    to_object,
    without_revision,
)
from tests.ec2.samples import node_class

READY = {"type": "Ready", "status": "True", "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def pool(template: dict[str, Any] | None = None, **spec: Any) -> NodePool:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    body = {"requirements": [], "nodeClassRef": reference, **(template or {}).get("spec", {})}
    return NodePool.model_validate(
        {
            "metadata": {"name": "web", "uid": "pool-uid", "generation": 1},
            "spec": {"template": {**(template or {}), "spec": body}, **spec},
        }
    )


def resolved(status: dict[str, Any] | None = None, **spec: Any) -> EC2NodeClass:
    return node_class({"conditions": [READY], **(status or {})}, **spec)


def digest(node_pool: NodePool | None = None, ec2_class: EC2NodeClass | None = None) -> str:
    return revision_of(node_pool or pool(), ec2_class or resolved()).digest


AMI = {"id": "ami-1", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
OTHER = {**AMI, "id": "ami-2"}


@pytest.mark.parametrize(
    "other",
    [
        digest(pool({"metadata": {"labels": {"team": "a"}}})),
        digest(pool({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})),
        digest(pool({"spec": {"requirements": [{"key": "zone", "operator": "Exists"}]}})),
        digest(pool({"spec": {"expireAfter": "1h"}})),
        digest(None, resolved(userData="echo")),
        digest(None, resolved({"amis": [AMI]})),
        digest(None, resolved({"amis": [OTHER]})),
        digest(None, resolved({"amis": [AMI, OTHER]})),
        digest(None, resolved({"amis": [OTHER, AMI]})),
        digest(None, resolved({"securityGroups": [{"id": "sg-1"}]})),
        digest(None, resolved({"subnets": [{"id": "subnet-a1", "zone": "us-west-2a"}]})),
        digest(None, resolved({"placementGroup": {"id": "pg-1", "name": "a", "strategy": "spread"}})),
    ],
)
def test_what_makes_other_nodes_is_another_version(other: str) -> None:
    assert other != digest()


def test_the_order_of_images_is_part_of_the_version() -> None:
    assert digest(None, resolved({"amis": [AMI, OTHER]})) != digest(None, resolved({"amis": [OTHER, AMI]}))


def test_what_changes_no_node_is_the_same_version() -> None:
    same = [
        digest(pool(weight=5, limits={"cpu": "10"}, disruption={"consolidateAfter": "5m"})),
        digest(pool({"spec": {"expireAfter": "720h"}})),
        digest(pool({"spec": {"expireAfter": "43200m"}})),
        digest(None, resolved(amiSelectorTerms=[{"alias": "al2023@v20240807"}])),
        digest(None, resolved(subnetSelectorTerms=[{"id": "subnet-a1"}])),
        digest(None, resolved({"instanceProfile": "other"})),
        digest(None, resolved({"conditions": []})),
        digest(None, resolved({"securityGroups": [{"id": "sg-2"}, {"id": "sg-1", "name": "nodes"}]})),
    ]
    assert set(same) == {digest()}


TEXT = st.text("ab", max_size=2)
TEMPLATES = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"labels": st.dictionaries(st.sampled_from("xy"), TEXT, max_size=2)})}
)
CLASSES = st.fixed_dictionaries(
    {},
    optional={
        "userData": TEXT,
        "tags": st.dictionaries(TEXT.filter(bool), TEXT),
        "associatePublicIPAddress": st.booleans(),
    },
)


@given(TEMPLATES, TEMPLATES, CLASSES, CLASSES)
def test_static_drift_and_versions_agree(
    template: dict[str, Any], later: dict[str, Any], spec: dict[str, Any], later_spec: dict[str, Any]
) -> None:
    """A NodeClaim is Drifted by its hashes exactly if the newest version is another one than its own."""
    before, after = pool(template), pool(later)
    class_before, class_after = resolved(**spec), resolved(**later_spec)
    drifted = (nodepool_hash(before), ec2nodeclass_hash(class_before)) != (
        nodepool_hash(after),
        ec2nodeclass_hash(class_after),
    )
    assert (digest(before, class_before) != digest(after, class_after)) is drifted


@given(TEMPLATES, TEMPLATES, CLASSES, CLASSES)
def test_a_stored_version_makes_the_same_nodes_after_the_specs_changed(
    template: dict[str, Any], later: dict[str, Any], spec: dict[str, Any], later_spec: dict[str, Any]
) -> None:
    before, class_before = pool(template), resolved(**spec)
    stored = json.loads(json.dumps(to_object(revision_of(before, class_before), "tenon", 7)))
    revision = from_object(stored)
    assert (revision, revision.number) == (revision_of(before, class_before), 7)

    changed = resolved({"amis": [OTHER], "capacityReservations": []}, **later_spec)
    changed = evolve(changed, metadata=evolve(changed.metadata, generation=9))
    effective = effective_pool(pool(later, weight=3), revision)
    its_class = effective_class(changed, revision)
    assert revision_of(effective, its_class) == revision
    assert nodepool_hash(effective) == nodepool_hash(before)
    assert ec2nodeclass_hash(its_class) == ec2nodeclass_hash(class_before)
    assert newest_revision(effective, its_class) == revision, "it is ready as it was then"
    assert effective.spec.weight == 3, "what is no part of a version is as the user wrote it last"


def test_a_class_that_is_not_resolved_makes_no_version() -> None:
    stale = evolve(resolved(), metadata=evolve(resolved().metadata, generation=4))
    failed = resolved({"conditions": [{**READY, "status": "False", "message": "no AMI"}]})
    assert newest_revision(pool(), None) is None
    assert newest_revision(pool(), stale) is None
    assert newest_revision(pool(), failed) is None
    assert newest_revision(pool(), resolved()) == revision_of(pool(), resolved())


def test_the_own_kubelet_of_a_nodepool_belongs_to_the_version() -> None:
    own = evolve(pool(), metadata=evolve(pool().metadata, annotations={labels.V1BETA1_KUBELET: '{"maxPods":5}'}))
    revision = revision_of(own, resolved())
    assert revision.digest != digest()
    assert effective_pool(pool(), revision).metadata.annotations[labels.V1BETA1_KUBELET] == '{"maxPods":5}'
    assert labels.V1BETA1_KUBELET not in effective_pool(own, revision_of(pool(), resolved())).metadata.annotations


def test_the_class_of_a_version_has_a_key_of_its_own() -> None:
    revision = revision_of(pool(), resolved())
    assert class_key(pool()) == "default"
    assert class_key(effective_pool(pool(), revision)) == f"default@web-{revision.digest}"


def test_a_version_that_a_user_wrote_counts_for_nothing() -> None:
    written = evolve(pool().metadata, annotations={labels.REVISION: "0000000000", "a": "b"})
    assert without_revision(written).annotations == {"a": "b"}
    assert without_revision(pool().metadata) == pool().metadata


def test_a_version_that_the_api_server_would_not_store_is_refused() -> None:
    huge = revision_of(pool({"metadata": {"annotations": {"a": "x" * 1_100_000}}}), resolved())
    with pytest.raises(RevisionTooLargeError, match="NodePool web with EC2NodeClass default has 11"):
        to_object(huge, "tenon", 1)


@pytest.mark.parametrize("data", [None, {}, {"nodePool": "web"}, {"nodePool": "web", "digest": "1", "nodeClass": {}}])
def test_a_controllerrevision_of_something_else_is_no_version(data: Any) -> None:
    with pytest.raises(UnreadableRevisionError, match="ControllerRevision web-1 holds no version"):
        from_object({"metadata": {"name": "web-1"}, "data": data})


@given(st.integers(0, 30), st.sets(st.integers(0, 30)))
def test_versions_are_bounded_and_none_in_use_goes(count: int, used: set[int]) -> None:
    first = revision_of(pool(), resolved())
    revisions = [replace(first, digest=f"{number:010}", number=number + 1) for number in range(count)]
    in_use = {f"{number:010}" for number in used}
    removed = superfluous(revisions, in_use)
    staying = [revision for revision in revisions if revision not in removed]
    assert not {revision.digest for revision in removed} & in_use
    assert len(staying) <= max(MAX_REVISIONS, len(in_use))
    assert all(
        staying_one.number > old.number
        for old in removed
        for staying_one in staying
        if staying_one.digest not in in_use
    )
    assert not removed or len(staying) >= MAX_REVISIONS, "no more than necessary goes"
