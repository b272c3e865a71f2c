"""Old manifests to begin from, and the check that what they become is sound in v1."""

from __future__ import annotations

from typing import Any

from tenon.apis.base import ApiModel
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.conversion import Converted
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tests.tenon.apis.case import edited

MODELS: dict[str, type[ApiModel]] = {"NodePool": NodePool, "NodeClaim": NodeClaim, "EC2NodeClass": EC2NodeClass}


def manifest(
    version: str, kind: str, spec: dict[str, Any], edits: dict[str, Any] | None = None, **metadata: Any
) -> Any:
    """An old object with fields of its spec set or removed."""
    base = {"apiVersion": version, "kind": kind, "metadata": {"name": "case", **metadata}, "spec": spec}
    return edited(base, edits or {})


def sound(converted: Converted) -> list[JsonObject]:
    """The objects of a conversion, each of which v1 accepts."""
    assert converted.problems == ()
    for body in converted.manifests:
        _, problems = parse(MODELS[body["kind"]], body)
        assert problems == [], problems
        assert body["apiVersion"].endswith("/v1")
    return list(converted.manifests)


def problems(converted: Converted) -> list[str]:
    """What is wrong; then there are no objects."""
    assert converted.manifests == ()
    return [str(problem) for problem in converted.problems]
