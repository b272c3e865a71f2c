"""What the leader writes into the definitions of kinds with two versions (OPS-05, SET-18, V1B-09)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenon.apis.versions.definitions import NAMES, conversion_patch, is_to_be_migrated
from tests.tenon.apis.generated import DEFINITIONS

SERVICE = {"service": {"namespace": "tenon", "name": "tenon", "path": "/convert", "port": 8443}}
URL = {"url": "https://127.0.0.1:1/convert"}
MADE: dict[str, Any] = {manifest["metadata"]["name"]: manifest for manifest in DEFINITIONS.values()}


def patched(definition: Any, patch: Any) -> Any:
    """The definition as the API server has it after the merge patch."""
    result = copy.deepcopy(definition)
    client_config = patch["spec"]["conversion"]["webhook"]["clientConfig"]
    result["spec"]["conversion"]["webhook"]["clientConfig"] = {k: v for k, v in client_config.items() if v is not None}
    return result


@pytest.mark.parametrize("name", NAMES)
def test_what_is_installed_lacks_only_whom_to_trust(name: str) -> None:
    patch = conversion_patch(MADE[name], SERVICE, "CA==")
    assert patch is not None
    written = patched(MADE[name], patch)
    assert written["spec"]["conversion"]["webhook"]["clientConfig"] == {**SERVICE, "caBundle": "CA=="}
    assert conversion_patch(written, SERVICE, "CA==") is None


def test_another_authority_or_another_way_is_written() -> None:
    first = patched(MADE[NAMES[0]], conversion_patch(MADE[NAMES[0]], SERVICE, "CA=="))
    assert conversion_patch(first, SERVICE, "other") is not None
    second = patched(first, conversion_patch(first, URL, "CA=="))
    assert second["spec"]["conversion"]["webhook"]["clientConfig"] == {**URL, "caBundle": "CA=="}
    assert conversion_patch(second, URL, "CA==") is None


def test_a_definition_of_one_version_is_left_alone() -> None:
    """As Karpenter's own CRDs since 1.1 are."""
    only = copy.deepcopy(MADE[NAMES[0]])
    only["spec"]["versions"] = [version for version in only["spec"]["versions"] if version["name"] == "v1"]
    assert conversion_patch(only, SERVICE, "CA==") is None


@pytest.mark.parametrize(
    ("stored", "storage", "expectation"),
    [
        (["v1beta1", "v1"], "v1", True),
        (["v1beta1"], "v1", True),
        (["v1"], "v1", False),
        ([], "v1", False),
        (["v1beta1"], "v1beta1", False),
    ],
)
def test_v1b09_only_what_may_be_stored_as_v1beta1_is_rewritten(
    stored: list[str], storage: str, expectation: bool
) -> None:
    definition = copy.deepcopy(MADE[NAMES[0]])
    for version in definition["spec"]["versions"]:
        version["storage"] = version["name"] == storage
    assert is_to_be_migrated({**definition, "status": {"storedVersions": stored}}) is expectation
