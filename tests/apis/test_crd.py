"""The CRDs: fresh, structural, and with the columns that users know (CRD-01 to CRD-03, NP-S5, NC-06, EC-S9)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.generate import HEADER, crd_texts
from cli.main import app
from tenon.apis.crd import custom_resource_definitions, structural

ROOT = Path(__file__).parents[2]
CRDS = custom_resource_definitions()
SCHEMA_WORDS = {
    "type", "format", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "items", "properties", "additionalProperties", "required",
    "anyOf", "x-kubernetes-validations", "x-kubernetes-int-or-string", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip


def version(name: str) -> dict[str, Any]:
    (only,) = CRDS[name]["spec"]["versions"]
    return dict(only)


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from schemas(schema[word], f"{path}[]")


def test_committed_files_are_fresh() -> None:
    for name, text in crd_texts().items():
        assert (ROOT / "deploy" / "crds" / name).read_text() == text, f"{name} is stale: run `tenon generate`"
    assert {path.name for path in (ROOT / "deploy" / "crds").iterdir()} == set(CRDS)


@pytest.mark.parametrize("name", CRDS)
def test_schema_is_structural(name: str) -> None:
    for path, schema in schemas(version(name)["schema"]["openAPIV3Schema"]):
        assert set(schema) <= SCHEMA_WORDS, path
        assert "type" in schema or "x-kubernetes-int-or-string" in schema, path
        assert not {"properties", "additionalProperties"} <= set(schema), path
        assert None not in schema.get("enum", []), path


@pytest.mark.parametrize("name", CRDS)
def test_every_spec_field_is_described(name: str) -> None:
    """`kubectl explain` is documentation that users have at hand."""
    spec = version(name)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for path, schema in schemas(spec, "spec"):
        for field, inner in schema.get("properties", {}).items():
            assert inner.get("description"), f"{path}.{field}"


@pytest.mark.parametrize(
    ("name", "narrow", "wide"),
    [
        ("karpenter.sh_nodepools.yaml", "NodeClass Nodes Ready Age", "Weight CPU Memory"),
        ("karpenter.sh_nodeclaims.yaml", "Type Capacity Zone Node Ready Age", "ImageID ID NodePool NodeClass Drifted"),
        ("karpenter.k8s.aws_ec2nodeclasses.yaml", "Ready Age", "Role"),
    ],
)
def test_columns(name: str, narrow: str, wide: str) -> None:
    columns = version(name)["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == narrow.split()
    assert [column["name"] for column in columns if column.get("priority")] == wide.split()


def test_names_and_subresources() -> None:
    assert CRDS["karpenter.k8s.aws_ec2nodeclasses.yaml"]["spec"]["names"]["shortNames"] == ["ec2nc", "ec2ncs"]
    assert version("karpenter.sh_nodepools.yaml")["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.nodes",
    }
    for crd in CRDS.values():
        assert crd["spec"]["scope"] == "Cluster"
        assert crd["spec"]["names"]["categories"] == ["karpenter"]
        assert "status" in crd["spec"]["versions"][0]["subresources"]


def test_defaults_reach_the_schema() -> None:
    spec = version("karpenter.sh_nodepools.yaml")["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["disruption"]["default"] == {"consolidateAfter": "0s"}
    assert spec["disruption"]["properties"]["budgets"]["default"] == [{"nodes": "10%"}]
    assert spec["template"]["properties"]["spec"]["properties"]["expireAfter"]["default"] == "720h"
    assert "default" not in spec["limits"]


def test_nodeclaim_spec_is_immutable() -> None:
    spec = version("karpenter.sh_nodeclaims.yaml")["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "self == oldSelf" in [rule["rule"] for rule in spec["x-kubernetes-validations"]]


def test_a_union_that_a_crd_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot say this union"):
        structural({"anyOf": [{"type": "string"}, {"type": "array"}]}, {})


def test_generate_writes_and_check_names_stale_files(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["generate", "--directory", str(tmp_path / "new")]).exit_code == 0
    assert run(app, ["generate", "--check", "--directory", str(tmp_path / "new")]).exit_code == 0
    (tmp_path / "new" / "karpenter.sh_nodeclaims.yaml").write_text(HEADER)
    answer = run(app, ["generate", "--check", "--directory", str(tmp_path / "new")])
    assert answer.exit_code == 1
    assert "karpenter.sh_nodeclaims.yaml" in answer.output
    assert "nodepools" not in answer.output


def test_generated_text_is_yaml_of_the_definition() -> None:
    for name, text in crd_texts().items():
        assert yaml.safe_load(text) == CRDS[name]
