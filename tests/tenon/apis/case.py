"""What a case of the tables of manifests is: edits to a good manifest, and whether it is accepted or refused.

`BOTH` cases are refused by the CRD too; `RUNTIME` ones only by the checks at run time, because a CRD cannot say
them. So one table serves the models and an API server alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tenon.apis.base import ApiModel
from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodepool import NodePool


def is_false(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition is there and False."""
    condition = get_condition(conditions, type_)
    return condition is not None and condition.status == "False"


class Removed:
    """In place of a field's value: the field is taken out."""

    def __repr__(self) -> str:
        """The same in every process, as it stands in the names of tests."""
        return "REMOVED"


REMOVED = Removed()
BOTH, RUNTIME = "both", "runtime"

_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
NODEPOOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "case"},
    "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": _REF}}},
}
NODECLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "case"},
    "spec": {"requirements": [], "nodeClassRef": _REF},
}
EC2NODECLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "case"},
    "spec": {
        "role": "KarpenterNodeRole-sandbox",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "sandbox"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "sandbox"}}],
    },
}
BASES: dict[str, tuple[type[ApiModel], dict[str, Any]]] = {
    "pool": (NodePool, NODEPOOL),
    "claim": (NodeClaim, NODECLAIM),
    "class": (EC2NodeClass, EC2NODECLASS),
}


@dataclass(frozen=True)
class Case:
    name: str
    base: str
    edits: dict[str, Any]
    refusal: str | None = None
    """A part of the sentence or path that says why it is refused; None when it is accepted."""
    keeper: str = BOTH

    @property
    def model(self) -> type[ApiModel]:
        return BASES[self.base][0]

    @property
    def manifest(self) -> dict[str, Any]:
        return edited(BASES[self.base][1], self.edits)

    def __str__(self) -> str:
        return f"{self.base}: {self.name}"


def edited(base: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    """A copy of the manifest with values at slash-separated paths below spec set or removed."""
    manifest = copy.deepcopy(base)
    for path, value in edits.items():
        *parents, last = path.split("/")
        place = manifest["spec"]
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is REMOVED:
            place.pop(last)
        else:
            place[last] = value
    return manifest


def term(key: str, operator: str, *values: str, min_values: int | None = None) -> dict[str, Any]:
    result: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        result["values"] = list(values)
    return result | ({"minValues": min_values} if min_values is not None else {})


def taint(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "effect": effect}
