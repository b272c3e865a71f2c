"""The v1 objects that stand for Provisioners and AWSNodeTemplates in a cluster."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.materialized_objects import (
    Materialized,
    belongs_to,
    changes,
    differs,
    made_of_provisioner,
    made_of_template,
)
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tests.tenon.apis.case import EC2NODECLASS
from tests.tenon.apis.legacy.older_objects import TEMPLATE_SPEC, patched, provisioner, template


def class_spec(name: str) -> Any:
    return made_of_template(template()).manifests[0]["spec"] if name == "mine" else None


def made(edits: dict[str, Any] | None = None, **metadata: Any) -> Materialized:
    materialized = made_of_provisioner(provisioner(edits, **metadata), class_spec)
    assert not materialized.problem
    return materialized


def test_leg14_a_pool_belongs_to_its_provisioner_and_its_nodes_carry_both_names() -> None:
    (pool,) = made().manifests
    assert pool["metadata"]["labels"] == {"karpenter.sh/provisioner-name": "old"}
    text = {labels.MADE_FROM: "Provisioner old: edit that one, because Tenon reverts edits of this one"}
    assert pool["metadata"]["annotations"] == text
    (owner,) = pool["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "Provisioner",
        "uid-old",
        True,
        True,
    )
    assert belongs_to(pool, provisioner())
    assert not belongs_to(pool, provisioner(uid="another"))


def test_what_other_tools_wrote_on_the_old_object_is_not_theirs_on_the_new_one() -> None:
    """Argo CD and Helm look for their labels, and would take what bears them for their own."""
    (pool,) = made(
        labels={"argocd.argoproj.io/instance": "app"}, annotations={"meta.helm.sh/release-name": "k"}
    ).manifests
    assert set(pool["metadata"]["labels"]) == {labels.PROVISIONER}
    assert set(pool["metadata"]["annotations"]) == {labels.MADE_FROM}


def test_leg06_an_inline_provider_is_a_class_of_the_provisioner() -> None:
    pool, node_class = made({"providerRef": None, "provider": TEMPLATE_SPEC}).manifests
    assert node_class["metadata"]["name"] == "old"
    assert belongs_to(node_class, provisioner())
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "old"
    assert "labels" not in node_class["metadata"]


def test_leg05_kubelet_settings_make_their_own_class_next_to_the_templates() -> None:
    """Two Provisioners of one template with different settings must not change each other's nodes."""
    pool, node_class = made({"kubeletConfiguration": {"maxPods": 5, "containerRuntime": "dockerd"}}).manifests
    assert node_class["metadata"]["name"] == "mine-old"
    assert node_class["spec"] == {**class_spec("mine"), "kubelet": {"maxPods": 5}}
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "mine-old"
    assert set(pool["metadata"]["annotations"]) == {labels.MADE_FROM}
    inline = {"providerRef": None, "provider": TEMPLATE_SPEC, "kubeletConfiguration": {"maxPods": 5}}
    _, own = made(inline).manifests
    assert (own["metadata"]["name"], own["spec"]["kubelet"]) == ("old", {"maxPods": 5})


def test_leg05_kubelet_settings_wait_for_the_template() -> None:
    body = provisioner({"providerRef": {"name": "nowhere"}, "kubeletConfiguration": {"maxPods": 5}})
    materialized = made_of_provisioner(body, class_spec)
    assert materialized.manifests == ()
    assert "AWSNodeTemplate nowhere" in materialized.problem


def test_leg06_a_missing_template_is_reported() -> None:
    materialized = made_of_provisioner(provisioner({"providerRef": {"name": "nowhere"}}), class_spec)
    assert len(materialized.manifests) == 1
    assert materialized.notes[0] == "AWSNodeTemplate nowhere is missing, and no node is launched without it"
    assert not any("is missing" in note for note in made().notes)


def test_leg07_an_empty_node_waits_for_nothing_but_its_time() -> None:
    """There were no budgets: the 10% of v1 would let a hundred empty nodes go ten at a time."""
    (pool,) = made({"ttlSecondsAfterEmpty": 30}).manifests
    assert pool["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "30s",
        "budgets": [{"nodes": "100%"}],
    }


def test_leg35_the_profile_of_the_settings_is_the_classes() -> None:
    materialized = made_of_template(template({"instanceProfile": None}), Defaults(instance_profile="of-all"))
    assert materialized.manifests[0]["spec"]["instanceProfile"] == "of-all"


def test_leg52_the_tags_of_the_settings_are_those_of_each_class_that_is_made() -> None:
    """Also of the copy with a Provisioner's kubelet settings; not of a class that somebody wrote for v1."""
    tags = {"team": "a"}
    materialized = made_of_template(template({"tags": {"cost": "1"}}), Defaults(tags=tags))
    assert materialized.manifests[0]["spec"]["tags"] == {"cost": "1", "team": "a"}
    provider = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
    inside = provisioner({"providerRef": None, "provider": provider, "kubeletConfiguration": {"maxPods": 5}})
    assert made_of_provisioner(inside, class_spec, Defaults(tags=tags)).manifests[1]["spec"]["tags"] == tags
    of_v1 = copy.deepcopy(EC2NODECLASS["spec"])
    beside = made_of_provisioner(
        provisioner({"kubeletConfiguration": {"maxPods": 5}}), lambda _: of_v1, Defaults(tags=tags)
    )
    assert "tags" not in beside.manifests[1]["spec"]


def test_leg31_without_a_word_on_images_a_family_that_has_some_is_taken() -> None:
    """AL2 was the default, and has no images for new clusters; who names it, or images, gets what is written."""
    new = Defaults(family="AL2023")

    def terms(edits: dict[str, Any], defaults: Defaults) -> Any:
        return made_of_template(template(edits), defaults).manifests[0]["spec"]["amiSelectorTerms"]

    assert terms({}, Defaults()) == terms({"amiFamily": "AL2"}, new) == [{"alias": "al2@latest"}]
    assert terms({}, new) == [{"alias": "al2023@latest"}]
    assert terms({"amiSelector": {"aws::ids": "ami-1"}}, new) == [{"id": "ami-1"}]
    assert any("Tenon uses AL2023" in note for note in made_of_template(template(), new).notes)


def test_what_cannot_be_converted_or_is_refused_by_v1_says_why() -> None:
    materialized = made_of_provisioner(provisioner({"provider": TEMPLATE_SPEC}), class_spec)
    reserved = made_of_provisioner(provisioner({"labels": {"karpenter.sh/colour": "red"}}), class_spec)
    nothing = made_of_template(template({"subnetSelector": {}}))
    assert [materialized.manifests for materialized in (materialized, reserved, nothing)] == [(), (), ()]
    assert "exclude each other" in materialized.problem
    assert "karpenter.sh/colour" in reserved.problem
    assert "spec.subnetSelector" in nothing.problem


def as_stored(body: dict[str, Any]) -> dict[str, Any]:
    """What the API server makes of it: defaults filled in, metadata of its own."""
    models: dict[str, type[NodePool | EC2NodeClass]] = {"NodePool": NodePool, "EC2NodeClass": EC2NodeClass}
    parsed, problems = parse(models[body["kind"]], body)
    assert parsed is not None
    assert problems == []
    stored = {**copy.deepcopy(body), "spec": parsed.spec.to_dict()}
    stored["metadata"] |= {"uid": "n", "resourceVersion": "7"}
    stored["metadata"]["annotations"] |= {labels.NODEPOOL_HASH: "1"}
    return stored


EDITS = st.sampled_from(
    [
        ("spec", "limits", {"cpu": "1"}),
        ("spec", "weight", 3),
        ("spec", "disruption", {"consolidateAfter": "1h"}),
        ("metadata", "labels", {}),
        ("metadata", "annotations", {"mine": "kept"}),
        ("metadata", "ownerReferences", []),
    ]
)


@given(st.lists(EDITS, max_size=3))
def test_edits_are_put_back_and_nothing_else_is_a_difference(edits: list[tuple[str, str, Any]]) -> None:
    (manifest,) = made({"limits": {"resources": {"cpu": "1000"}}}).manifests
    stored = as_stored(manifest)
    assert not differs(stored, manifest)
    edited = copy.deepcopy(stored)
    for part, name, value in edits:
        edited[part][name] = value
    assert differs(edited, manifest) == (edited != stored)
    again = patched(edited, changes(edited, manifest))
    assert not differs(again, manifest)
    assert edited["metadata"]["annotations"].items() - again["metadata"]["annotations"].items() == set()
