"""A scenario of disruption: what is given, what must come of it, and why.

A file in `disruption/` is one YAML document of one of three kinds, which its key says:

- `cluster`: nodes and pools. Expects commands, what keeps the other nodes, what budgets allow, and how a command fares
  when it is validated on the cluster as it is later (`disruption_cluster.py`, `disruption_expected.py`).
- `drift`: a NodeClaim, and the NodePool and EC2NodeClass that it was launched from and that are there now
  (`disruption_drift.py`).
- `legacy_repair`: nodes with conditions, and which LEGACY_NODE_REPAIR replaces (`disruption_legacy_repair.py`).

To add one, copy the file that is most alike and name it after its row. Write under `derivation` how the expectation
follows from the row and the catalogue, before you run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.disruption_cluster import ClusterScenario
from tests.conformance.disruption_drift import DriftScenario
from tests.conformance.disruption_legacy_repair import LegacyRepairScenario

FOLDER = Path(__file__).parent / "disruption"

Scenario = ClusterScenario | DriftScenario | LegacyRepairScenario
KINDS: Mapping[str, type[Scenario]] = {
    "cluster": ClusterScenario,
    "drift": DriftScenario,
    "legacy_repair": LegacyRepairScenario,
}


def read(path: Path) -> Scenario:
    """Read a file.

    Raises:
        ValueError: it is of no kind or of several, or has a key that its kind does not know.
    """
    declaration: Any = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    kinds = KINDS.keys() & declaration.keys()
    if len(kinds) != 1:
        raise ValueError(f"{path.name} must have exactly one of {', '.join(KINDS)}")
    return KINDS[kinds.pop()].model_validate(declaration)


def failure(scenario: Scenario) -> str:
    """What is wrong; empty if the scenario holds."""
    failures = scenario.failures()
    if not failures:
        return ""
    return "\n".join([", ".join(scenario.rows), scenario.scenario, scenario.derivation, *failures])
