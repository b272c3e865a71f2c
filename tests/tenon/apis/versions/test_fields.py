"""A field that one version has and the other lacks would be pruned by the API server: each has to be in a part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tenon.apis.versions import nodeclasses, pools_and_claims
from tenon.apis.versions.definitions import NAMES
from tenon.apis.versions.parts import Part, Path
from tests.tenon.apis.generated import DEFINITIONS

PARTS = dict(
    zip(
        NAMES,
        (pools_and_claims.NODEPOOL, pools_and_claims.NODECLAIM, nodeclasses.parts_of({"apiVersion": "v1beta1"})),
        strict=True,
    )
)
SCHEMAS: dict[str, dict[str, Any]] = {
    manifest["metadata"]["name"]: {v["name"]: v["schema"]["openAPIV3Schema"] for v in manifest["spec"]["versions"]}
    for manifest in DEFINITIONS.values()
}


def fields(schema: Mapping[str, Any], at: Path = ()) -> set[Path]:
    """The paths of all fields; items of lists and values of maps are no step of their own."""
    paths: set[Path] = set()
    for name, inner in (schema.get("properties") or {}).items():
        paths |= {(*at, name), *fields(inner, (*at, name))}
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            paths |= fields(inner, at)
    return paths


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_every_field_that_the_other_version_lacks_is_in_a_part(name: str, version: str) -> None:
    def paths(part: Part) -> Any:
        return (part.v1 if version == "v1" else part.v1beta1).values()

    entries = {tuple(path) for part in PARTS[name] for path in paths(part)}
    other = "v1" if version == "v1beta1" else "v1beta1"
    lacking = fields(SCHEMAS[name][version]) - fields(SCHEMAS[name][other])
    assert {path for path in lacking if not any(path[: len(item)] == item for item in entries)} == set()
