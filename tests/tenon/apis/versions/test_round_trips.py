"""Objects of v1 and v1beta1 in the other version, and back as they were (V1B-01 to V1B-08, V1B-14 to V1B-17)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.legacy.v1beta1 import convert_nodeclass, convert_nodepool
from tenon.apis.versions.objects import converted
from tests.tenon.apis.versions.manifests import OLD_CLAIMS, OLD_OBJECTS, V1_OBJECTS, Manifest

KEPT = "tenon.sh/v1"
EXPIRY = {"a": "5h"}


def there(body: Manifest) -> Manifest:
    """The object in the other version; the one that is given stays as it is."""
    group, _, version = body["apiVersion"].partition("/")
    other = "v1" if version == "v1beta1" else "v1beta1"
    return converted(copy.deepcopy(body), f"{group}/{other}", EXPIRY)


@given(V1_OBJECTS)
def test_v1_by_way_of_v1beta1_is_what_it_was(body: Manifest) -> None:
    assert there(there(body)) == body


@given(OLD_OBJECTS)
def test_v1beta1_by_way_of_v1_is_what_it_was(body: Manifest) -> None:
    assert there(there(body)) == body


@given(OLD_CLAIMS)
def test_v1b07_a_nodeclaim_keeps_the_age_that_v1_gave_it(body: Manifest) -> None:
    """Or its life would change with its pool, whenever somebody touches it through v1beta1."""
    v1 = there(body)
    again = there(v1)
    annotations = again["metadata"]["annotations"]
    assert json.loads(annotations.pop(KEPT))["expireAfter"] == {"expireAfter": v1["spec"]["expireAfter"]}
    if not annotations:
        del again["metadata"]["annotations"]
    assert again == body


@given(V1_OBJECTS | OLD_OBJECTS | OLD_CLAIMS, st.data())
def test_what_somebody_wrote_into_the_annotations_is_no_fault(body: Manifest, data: Any) -> None:
    other = there(body)
    junk = data.draw(
        st.sampled_from(
            ["", "[", "[" * 100_000, "[]", '{"requirements": [5]}', '{"requirements": {"0": 5}}', '{"nodeClassRef": 1}']
        )
        | st.sampled_from(['{"images": {"amiSelectorTerms": 5}}', '{"consolidation": {"x": 1}, "budgets": {"0": {}}}'])
    )
    for name in ("tenon.sh/v1", "tenon.sh/v1beta1"):
        other["metadata"].setdefault("annotations", {})[name] = junk
    assert there(other)["spec"]


def v1_pool(**spec: Any) -> Manifest:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {
            "template": {
                "spec": {
                    "requirements": [{"key": "cpu", "operator": "Gte", "values": ["4"]}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
                    "expireAfter": "720h",
                    "terminationGracePeriod": "1h",
                }
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "30s",
                "budgets": [{"nodes": "10%"}, {"nodes": "0", "reasons": ["Drifted"]}],
            },
            **spec,
        },
    }


def test_v1b01_to_v1b06_what_a_client_of_v1beta1_reads_of_a_pool() -> None:
    spec = there(v1_pool(replicas=3))["spec"]
    assert spec == {
        "template": {
            "spec": {
                "requirements": [{"key": "cpu", "operator": "Gt", "values": ["3"]}],
                "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "c"},
            }
        },
        "disruption": {
            "consolidationPolicy": "WhenUnderutilized",
            "expireAfter": "720h",
            "budgets": [{"nodes": "10%"}, {"nodes": "0"}],
        },
    }


def test_v1b06_what_a_client_of_v1beta1_changes_is_changed_and_the_rest_stays() -> None:
    old = there(v1_pool(replicas=3))
    old["spec"]["disruption"]["expireAfter"] = "1h"
    old["spec"]["disruption"]["budgets"].insert(0, {"nodes": "1"})
    old["spec"]["template"]["spec"]["requirements"].append({"key": "x", "operator": "Exists"})
    manifest = v1_pool(replicas=3)
    manifest["spec"]["template"]["spec"]["expireAfter"] = "1h"
    manifest["spec"]["disruption"]["budgets"].insert(0, {"nodes": "1"})
    manifest["spec"]["template"]["spec"]["requirements"].append({"key": "x", "operator": "Exists"})
    assert there(old) == manifest


def test_v1b17_a_requirement_that_a_client_of_v1beta1_changes_is_not_put_back() -> None:
    old = there(v1_pool())
    old["spec"]["template"]["spec"]["requirements"][0]["values"] = ["7"]
    requirements = there(old)["spec"]["template"]["spec"]["requirements"]
    assert requirements == [{"key": "cpu", "operator": "Gt", "values": ["7"]}]


def test_v1b02_a_policy_that_a_client_of_v1beta1_changes_is_not_put_back() -> None:
    old = there(v1_pool())
    old["spec"]["disruption"] |= {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"}
    disruption = there(old)["spec"]["disruption"]
    assert (disruption["consolidationPolicy"], disruption["consolidateAfter"]) == ("WhenEmpty", "5m")


def test_v1b04_v1b05_v1_keeps_kubelet_and_reference_in_karpenters_annotations() -> None:
    old = there(v1_pool())
    node = old["spec"]["template"]["spec"]
    node["kubelet"] = {"maxPods": 9}
    node["nodeClassRef"] = {"name": "d"}
    manifest = there(old)
    annotations = manifest["metadata"]["annotations"]
    assert json.loads(annotations["compatibility.karpenter.sh/v1beta1-kubelet-conversion"]) == {"maxPods": 9}
    assert json.loads(annotations["compatibility.karpenter.sh/v1beta1-nodeclass-reference"]) == {"name": "d"}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"}
    assert manifest["spec"]["template"]["spec"]["nodeClassRef"] == reference
    assert "kubelet" not in manifest["spec"]["template"]["spec"]


def node_class(version: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": {"name": "c"},
        "spec": {"role": "r", **spec},
    }


def test_ec07_ec09_an_alias_is_a_family_to_a_client_of_v1beta1() -> None:
    old = there(node_class("v1", amiSelectorTerms=[{"alias": "al2023@v20240807"}], kubelet={"maxPods": 9}))
    assert old["spec"] == {"role": "r", "amiFamily": "AL2023"}
    annotations = old["metadata"]["annotations"]
    assert annotations["compatibility.karpenter.k8s.aws/v1-alias-version"] == "v20240807"
    old["spec"]["tags"] = {"a": "b"}
    manifest = there(old)
    assert manifest["spec"] == {
        "role": "r",
        "amiSelectorTerms": [{"alias": "al2023@v20240807"}],
        "kubelet": {"maxPods": 9},
        "tags": {"a": "b"},
    }
    assert "annotations" not in manifest["metadata"]


def test_v1b15_an_image_that_v1beta1_cannot_name_is_none_there() -> None:
    old = there(node_class("v1", amiFamily="Custom", amiSelectorTerms=[{"ssmParameter": "/a"}]))
    assert old["spec"]["amiSelectorTerms"] == [{"id": "ami-placeholder"}]


def test_v1b16_ubuntu_is_al2_with_its_volumes_and_a_mark() -> None:
    manifest = there(node_class("v1beta1", amiFamily="Ubuntu"))
    assert manifest["spec"]["amiFamily"] == "AL2"
    assert manifest["spec"]["amiSelectorTerms"] == [{"id": "ami-placeholder"}]
    assert manifest["spec"]["blockDeviceMappings"][0]["ebs"]["volumeSize"] == "20Gi"
    mark = manifest["metadata"]["annotations"]["compatibility.karpenter.k8s.aws/v1beta1-ubuntu"]
    assert mark == "amiFamily,blockDeviceMappings,incompatible"


def test_v1b16_ubuntu_with_images_added_in_v1_is_still_ubuntu() -> None:
    manifest = there(node_class("v1beta1", amiFamily="Ubuntu"))
    manifest["spec"]["amiSelectorTerms"] = [{"id": "ami-1"}]
    assert there(manifest)["spec"] == {"role": "r", "amiFamily": "Ubuntu", "amiSelectorTerms": [{"id": "ami-1"}]}


def test_v1b14_each_version_has_its_own_hop_limit() -> None:
    old = node_class("v1beta1", amiFamily="AL2", metadataOptions={"httpTokens": "optional"})
    assert there(old)["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 2
    new = node_class("v1", amiSelectorTerms=[{"alias": "al2@latest"}], metadataOptions={"httpTokens": "optional"})
    assert there(new)["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 1


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({"amiFamily": "AL2"}, {}),
        ({"amiFamily": "Bottlerocket"}, {"compatibility.karpenter.k8s.aws/v1-alias-version": "v1.2.3"}),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}], "metadataOptions": {}}, {}),
        ({"amiFamily": "Ubuntu", "amiSelectorTerms": [{"name": "u"}], "tags": {"a": "b"}}, {}),
        ({"amiFamily": "Ubuntu", "blockDeviceMappings": [{"ebs": {"volumeSize": "9Gi"}}]}, {}),
        ({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}], "userData": "x"}, {}),
    ],
    ids=str,
)
def test_the_webhook_makes_of_a_class_what_tenon_convert_makes(spec: Manifest, annotations: dict[str, str]) -> None:
    old = node_class("v1beta1", **spec)
    old["metadata"]["annotations"] = annotations
    (manifest,) = convert_nodeclass(old).manifests
    assert there(old)["spec"] == manifest["spec"]


@pytest.mark.parametrize(
    "disruption",
    [
        {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
        {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never", "expireAfter": "Never"},
        {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "30s",
            "expireAfter": "1h",
            "budgets": [{"nodes": "1"}],
        },
    ],
    ids=str,
)
def test_the_webhook_makes_of_a_pool_what_tenon_convert_makes(disruption: Manifest) -> None:
    node = {"requirements": [], "nodeClassRef": {"name": "c"}, "kubelet": {"maxPods": 9}}
    old = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {"template": {"spec": node}, "disruption": disruption, "limits": {"cpu": "10"}},
    }
    (manifest,) = convert_nodepool(old).manifests
    result = there(old)
    assert result["spec"] == manifest["spec"]
    for text in (result["metadata"]["annotations"], manifest["metadata"]["annotations"]):
        assert json.loads(text["compatibility.karpenter.sh/v1beta1-kubelet-conversion"]) == {"maxPods": 9}


def test_v1b15_windows2025_is_an_alias_and_a_family_as_the_others_are() -> None:
    """A class without terms would be none of v1; v1beta1 has the family, though it came later."""
    old = node_class("v1beta1", amiFamily="Windows2025")
    v1 = there(old)
    assert v1["spec"]["amiSelectorTerms"] == [{"alias": "windows2025@latest"}]
    assert there(v1) == old
    manifest = there(node_class("v1", amiSelectorTerms=[{"alias": "windows2025@latest"}]))
    assert manifest["spec"] == {"role": "r", "amiFamily": "Windows2025"}


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({"replicas": {"replicas": -3}}, "replicas"),
        ({"terminationGracePeriod": {"terminationGracePeriod": {"x": 1}}}, "terminationGracePeriod"),
        ({"terminationGracePeriod": {"terminationGracePeriod": "Never"}}, "terminationGracePeriod"),
    ],
)
def test_what_v1_does_not_take_is_not_restored_from_an_annotation(manifest: Manifest, field: str) -> None:
    """The API server looks at the request as v1beta1 has it; what the annotation adds, nobody else looks at."""
    old = there(v1_pool())
    old["metadata"]["annotations"][KEPT] = json.dumps(manifest)
    assert field not in json.dumps(there(old)["spec"])


def test_budgets_and_requirements_that_v1_does_not_take_are_not_restored() -> None:
    old = there(v1_pool())
    document = json.loads(old["metadata"]["annotations"][KEPT])
    document["budgets"]["1"]["reasons"] = ["Whenever"]
    document["requirements"]["0"]["values"] = [5]
    old["metadata"]["annotations"][KEPT] = json.dumps(document)
    text = json.dumps(there(old)["spec"])
    assert "Whenever" not in text
    assert "[5]" not in text


@pytest.mark.parametrize("kubelet", [{"maxPods": -1}, {"evictionHard": "x"}, {"clusterDNS": {"a": 5}}, {"colour": [1]}])
def test_ec13_kubelet_settings_that_the_api_server_stores_unchecked_come_back_from_v1beta1(
    kubelet: dict[str, Any],
) -> None:
    """Also faulty ones: a controller that writes an annotation through v1beta1 must not remove a user's settings."""
    body = node_class("v1", amiSelectorTerms=[{"id": "ami-1"}], kubelet=kubelet)
    assert there(there(body)) == body
