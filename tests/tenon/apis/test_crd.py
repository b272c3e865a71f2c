"""The CRDs: fresh, structural, with the names and columns that users know (CRD-01 to CRD-05, CRD-08 to CRD-10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tenon.apis.crd_kinds import RESOURCES
from tenon.apis.kinds import KINDS, Kind
from tenon.apis.structural import structural
from tests.tenon.apis.generated import DEFINITIONS as CRDS
from tools.generate import HEADER, app, crd_texts

ROOT = Path(__file__).parents[3]
SCHEMA_WORDS = {
    "type", "format", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "items", "properties", "additionalProperties", "required",
    "anyOf", "x-kubernetes-validations", "x-kubernetes-int-or-string", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip


VERSIONS = {
    f"{crd['spec']['names']['kind']} {version['name']}": version
    for crd in CRDS.values()
    for version in crd["spec"]["versions"]
}


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from schemas(schema[word], f"{path}[]")


def test_committed_files_are_fresh() -> None:
    for name, text in crd_texts().items():
        assert (ROOT / "deploy" / "crds" / name).read_text() == text, f"{name} is stale: run `make generate`"
    assert {path.name for path in (ROOT / "deploy" / "crds").iterdir()} == set(CRDS)


@pytest.mark.parametrize("name", VERSIONS)
def test_schema_is_structural(name: str) -> None:
    for path, schema in schemas(VERSIONS[name]["schema"]["openAPIV3Schema"]):
        assert set(schema) <= SCHEMA_WORDS, path
        assert schema.keys() & {"type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}, path
        assert not {"properties", "additionalProperties"} <= set(schema), path
        assert None not in schema.get("enum", []), path


@pytest.mark.parametrize("name", VERSIONS)
def test_kubectl_reads_no_field_as_a_boolean(name: str) -> None:
    """kubectl reads YAML 1.1, in which the key `off` is false."""
    for path, schema in schemas(VERSIONS[name]["schema"]["openAPIV3Schema"]):
        assert not {"y", "n", "yes", "no", "on", "off", "true", "false"} & set(schema.get("properties", {})), path


@pytest.mark.parametrize("name", VERSIONS)
def test_every_field_is_described(name: str) -> None:
    """`kubectl explain` is documentation that users have at hand."""
    for part in ("spec", "status"):
        schema = VERSIONS[name]["schema"]["openAPIV3Schema"]["properties"][part]
        for path, inner in schemas(schema, part):
            for field, property_ in inner.get("properties", {}).items():
                sentence = property_.get("description", "")
                assert sentence.endswith((".", "%.")), f"{path}.{field}: {sentence}"
                assert "\n" not in sentence, f"{path}.{field}: {sentence}"


@pytest.mark.parametrize(
    ("name", "narrow", "wide"),
    [
        ("NodePool v1", "NodeClass Nodes Ready Age", "Weight CPU Memory Limit Capacity Price"),
        ("NodePool v1beta1", "NodeClass", "Weight"),
        (
            "NodeClaim v1",
            "Type Capacity Zone Node Ready Age",
            "ImageID ID NodePool NodeClass Drifted Price Kept Leaves Drain",
        ),
        ("NodeClaim v1beta1", "Type Zone Node Ready Age", "Capacity NodePool NodeClass"),
        ("EC2NodeClass v1", "Ready Age", "Role"),
        ("EC2NodeClass v1beta1", "Ready Age", "Role"),
        ("NodeOverlay v1alpha1", "Ready Age", "Weight"),
        ("DisruptionFreeze v1alpha1", "Active Changes NodePools Reason Age", "By"),
        ("NodeRepairPolicy v1alpha1", "NodePools Matching Ready Age", "Weight Conditions"),
        ("NodeRollout v1alpha1", "NodePools Phase Wave Ready Age", "OnFailure"),
        ("NodeSchedule v1alpha1", "Zone NodePools Holds Changes Age", "Suspended Applied"),
        (
            "CapacityBuffer v1beta1",
            "Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age",
            "",
        ),
        ("Provisioner v1alpha5", "Template", "Weight"),
        ("Machine v1alpha5", "Type Zone Node Ready Age", "Capacity Provisioner Template"),
        ("AWSNodeTemplate v1alpha1", "Age", ""),
    ],
)
def test_columns(name: str, narrow: str, wide: str) -> None:
    """NP-S5, NC-06, EC-S9, CB-10, LEG-15."""
    columns = VERSIONS[name]["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == narrow.split()
    assert [column["name"] for column in columns if column.get("priority")] == wide.split()


@pytest.mark.parametrize(
    ("name", "short", "category", "scope"),
    [
        ("karpenter.sh_nodepools.yaml", None, "karpenter", "Cluster"),
        ("karpenter.sh_nodeclaims.yaml", None, "karpenter", "Cluster"),
        ("karpenter.k8s.aws_ec2nodeclasses.yaml", ["ec2nc", "ec2ncs"], "karpenter", "Cluster"),
        ("karpenter.sh_nodeoverlays.yaml", ["overlays"], "karpenter", "Cluster"),
        ("tenon.sh_disruptionfreezes.yaml", ["freeze", "freezes"], "karpenter", "Cluster"),
        ("tenon.sh_noderepairpolicies.yaml", ["nrp"], "karpenter", "Cluster"),
        ("tenon.sh_noderollouts.yaml", ["nro"], "karpenter", "Cluster"),
        ("tenon.sh_nodeschedules.yaml", ["nsched"], "karpenter", "Cluster"),
        ("autoscaling.x-k8s.io_capacitybuffers.yaml", ["cb"], "autoscaling", "Namespaced"),
        ("karpenter.sh_provisioners.yaml", None, "karpenter", "Cluster"),
        ("karpenter.sh_machines.yaml", None, "karpenter", "Cluster"),
        ("karpenter.k8s.aws_awsnodetemplates.yaml", None, "karpenter", "Cluster"),
    ],
)
def test_names(name: str, short: list[str] | None, category: str, scope: str) -> None:
    spec = CRDS[name]["spec"]
    assert spec["names"].get("shortNames") == short
    assert spec["names"]["categories"] == [category]
    assert spec["scope"] == scope


def test_subresources() -> None:
    for name, version in VERSIONS.items():
        assert "status" in version["subresources"]
        assert ("scale" in version["subresources"]) == (name == "NodePool v1")
    assert VERSIONS["NodePool v1"]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.nodes",
    }


def test_v1_is_stored_and_v1beta1_is_converted() -> None:
    """CRD-10: the worker answers at the address; who installs the file need not know its certificate."""
    for crd in CRDS.values():
        versions = crd["spec"]["versions"]
        assert [version["storage"] for version in versions] == [True, *(False for _ in versions[1:])]
        assert all(version["served"] for version in versions)
        if len(versions) == 1:
            assert "conversion" not in crd["spec"]
            continue
        assert [version["name"] for version in versions] == ["v1", "v1beta1"]
        client = crd["spec"]["conversion"]["webhook"]["clientConfig"]
        assert client == {"service": {"name": "tenon", "namespace": "tenon", "path": "/convert", "port": 8443}}


def test_defaults_reach_the_schema() -> None:
    spec = VERSIONS["NodePool v1"]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["disruption"]["default"] == {"consolidateAfter": "0s"}
    assert spec["disruption"]["properties"]["budgets"]["default"] == [{"nodes": "10%"}]
    assert spec["template"]["properties"]["spec"]["properties"]["expireAfter"]["default"] == "720h"
    assert "default" not in spec["limits"]


def test_nodeclaim_spec_is_immutable() -> None:
    spec = VERSIONS["NodeClaim v1"]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "self == oldSelf" in [rule["rule"] for rule in spec["x-kubernetes-validations"]]


def test_a_union_that_a_crd_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot say this union"):
        structural({"anyOf": [{"type": "string"}, {"type": "array"}]}, {})


def test_generate_writes_and_check_names_stale_files(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["--directory", str(tmp_path / "new")]).exit_code == 0
    assert run(app, ["--check", "--directory", str(tmp_path / "new")]).exit_code == 0
    (tmp_path / "new" / "karpenter.sh_nodeclaims.yaml").write_text(HEADER)
    answer = run(app, ["--check", "--directory", str(tmp_path / "new")])
    assert answer.exit_code == 1
    assert "karpenter.sh_nodeclaims.yaml" in answer.output
    assert "nodepools" not in answer.output


def test_generated_text_is_yaml_of_the_definition() -> None:
    for name, text in crd_texts().items():
        assert yaml.safe_load(text) == CRDS[name]


def test_the_names_of_kinds_are_those_of_their_definitions() -> None:
    assert (
        tuple(
            Kind(resource.kind, resource.group, tuple(version.name for version in resource.versions), resource.scope)
            for resource in RESOURCES
        )
        == KINDS
    )
