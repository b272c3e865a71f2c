"""A scenario file: what it must say, and what is wrong with one that says it otherwise.

The first YAML document describes the scenario, the others are the manifests of its input, taken as they stand. Nothing
in the description is guessed at: a key that nobody reads would make a scenario pass for the wrong reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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
        """Whether it pins, beside the outcome, why a type won or a pod has no place."""
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


def read(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        ValueError: it has no manifests, or its description is not one.
    """
    parts = _END_OF_DOCUMENT.split(path.read_text(), maxsplit=1)
    if len(parts) < 2:
        raise ValueError("no manifests follow the description")
    stated: Any = yaml.safe_load(parts[0])
    return Scenario(path, Description.model_validate(stated), parts[1])
