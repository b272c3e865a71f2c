"""A scenario file: what it must say, and what is wrong with one that says it otherwise.

The first YAML document describes the scenario, the others are the manifests of its input, taken as they stand. Nothing
in the description is guessed at: a key that nobody reads would make a scenario pass for the wrong reason.

What nearly all scenarios have in common need not be written: a NodePool without a nodeClassRef gets that of the default
EC2NodeClass, and manifests without any NodePool get the default one, unless the description says `defaults: false`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

FOLDER = Path(__file__).parent
SCENARIOS = FOLDER / "scenarios"
CATALOGS = FOLDER / "catalogs"
BUILT_IN = "built-in"

ROW = re.compile(r"[A-Z][A-Z0-9]{1,3}-[0-9]{2,3}")
"""The id of a row of behaviour."""
ON_DEMAND_AMD64 = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
]
"""Requirements of the default NodePool."""
_NODE_CLASS_REF = "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n"
_NODEPOOL = f"""
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  template:
    spec:
{_NODE_CLASS_REF}      requirements: REQUIREMENTS
---"""
_IS_NODEPOOL = re.compile(r"^kind: NodePool$", re.MULTILINE)
_IS_POOL = re.compile(r"^kind: (NodePool|Provisioner)$", re.MULTILINE)
_NODE_SPEC = re.compile(r"^    spec:\n", re.MULTILINE)
_END_OF_DOCUMENT = re.compile(r"^---[ \t]*$", re.MULTILINE)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, strict=True)


class ExpectedClaim(_Strict):
    """What one NodeClaim of the plan must be; only what is given is looked at."""

    pods: list[str] | None = None
    pod_count: int | None = None
    pool: str | None = None
    type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    price: float | None = None
    """Dollars an hour."""
    types: list[str] | None = None
    """All instance types that it lists, in any order."""
    types_in_order: list[str] | None = None
    """All instance types that it lists, cheapest first."""
    type_count: int | None = None
    types_include: list[str] = []
    types_exclude: list[str] = []
    requires: list[str] = []
    """``key operator value value ...``, each an entry of its requirements; ``minValues n`` may follow."""
    lacks: list[str] = []
    """Labels that its requirements do not name."""
    requests: dict[str, str] | None = None
    """Quantities; resources that are not named may be anything."""
    why: list[str] = []
    """Fragments of the sentence on why its cheapest type won."""


class PodsPerDomain(_Strict):
    """How many of the pods each domain of a label has: those of the input on existing nodes and those of the plan."""

    pods: str
    """A glob over ``namespace/name``."""
    counts: list[int]
    """In ascending order; domains without such a pod are not counted."""


class Expected(_Strict):
    """What the plan must be; only what is given is looked at, but a pod that is not named must have a place."""

    claims: list[ExpectedClaim] | None = None
    claim_count: int | None = None
    existing: dict[str, list[str]] | None = None
    unschedulable: dict[str, list[str]] = {}
    """Fragments of the reason, by pod."""
    together: list[list[str]] = []
    apart: list[list[str]] = []
    per_domain: dict[str, PodsPerDomain] = {}
    price_per_hour: float | None = None
    price_per_bound: float | None = None
    """The most that the plan may cost, as a multiple of ``lowerBoundPricePerHour``."""


class Description(_Strict):
    """The first document of a scenario file."""

    scenario: str
    rows: list[str] = Field(min_length=1)
    catalog: str = "ordinary"
    """A file in catalogs/, or BUILT_IN for the command's own."""
    set: dict[str, str] = {}
    pool_requirements: list[dict[str, Any]] | None = None
    """Requirements of the default NodePool, where they are others than `ON_DEMAND_AMD64`."""
    defaults: bool = True
    """Whether manifests without a NodePool get the default one, and NodePools without a nodeClassRef get one."""
    now: str | None = None
    arguments: list[str] = []
    status: Literal[0, 2] = 0
    stderr: list[str] = []
    expect: Expected = Expected()

    @model_validator(mode="after")
    def _pins_the_outcome(self) -> Description:
        expected = self.expect
        outcomes = (expected.claims, expected.claim_count, expected.existing, expected.unschedulable or None)
        if self.status == 0 and all(outcome is None for outcome in outcomes):
            raise ValueError("expect pins no outcome: give claims, claimCount, existing or unschedulable")
        if self.status == 2 and not self.stderr:
            raise ValueError("a refusal is pinned by stderr: give fragments of it")
        return self


@dataclass(frozen=True)
class Scenario:
    """One scenario: its description and the text of its manifests."""

    path: Path
    description: Description
    manifests: str = field(repr=False)

    @property
    def explained(self) -> bool:
        """Whether it pins, next to the outcome, why a type won or a pod has no place."""
        expected = self.description.expect
        return any(expected.unschedulable.values()) or any(claim.why for claim in expected.claims or ())

    @property
    def title(self) -> str:
        """``theme/file name``."""
        return title_of(self.path)


def scenario_files() -> list[Path]:
    """All scenario files, in order."""
    return sorted(SCENARIOS.rglob("*.yaml"))


def title_of(path: Path) -> str:
    """``theme/file name``."""
    return str(path.relative_to(SCENARIOS).with_suffix(""))


@cache
def read(path: Path) -> Scenario:
    """Read a scenario file, once in a session.

    Raises:
        ValueError: it has no manifests, or its description is not one.
    """
    parts = _END_OF_DOCUMENT.split(path.read_text(), maxsplit=1)
    if len(parts) < 2:
        raise ValueError("no manifests follow the description")
    declaration: Any = yaml.load(parts[0], Loader=yaml.CSafeLoader)
    description = Description.model_validate(declaration)
    return Scenario(path, description, completed(parts[1], description))


def completed(manifests: str, description: Description) -> str:
    """The manifests with the default NodePool, if they have none, and with the nodeClassRefs that are left out.

    Raises:
        ValueError: requirements of the default NodePool are given, but it is not used.
    """
    has_pool = _IS_POOL.search(manifests) is not None
    if description.pool_requirements is not None and (has_pool or not description.defaults):
        raise ValueError("poolRequirements are of the default NodePool, which is not used here")
    if not description.defaults:
        return manifests
    if not has_pool:
        requirements = ON_DEMAND_AMD64 if description.pool_requirements is None else description.pool_requirements
        return _NODEPOOL.replace("REQUIREMENTS", json.dumps(requirements)) + manifests
    return "---".join(map(_with_node_class, _END_OF_DOCUMENT.split(manifests)))


def _with_node_class(document: str) -> str:
    """The document; a NodePool of v1 with its nodeClassRef."""
    is_nodepool = _IS_NODEPOOL.search(document) is not None and "apiVersion: karpenter.sh/v1\n" in document
    if not is_nodepool or "nodeClassRef" in document:
        return document
    return _NODE_SPEC.sub(lambda result: result[0] + _NODE_CLASS_REF, document, count=1)
