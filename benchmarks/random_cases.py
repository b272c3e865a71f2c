"""Random inputs of ``tenon simulate``. Each has a number, and the same number always gives the same input."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks import random_capacity, random_loads, random_workloads

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An input: manifests, and a catalogue unless it uses the built-in one."""

    number: int
    manifests: list[Object]
    catalogue: Object | None


def rules_case(number: int) -> Case:
    """Draw a small input over all rules: every kind of constraint, pools with limits, nodes, DaemonSets and volumes."""
    return drawn_case(number, Random(f"rules {number}"))


def drawn_case(number: int, draw: Random) -> Case:
    """Draw a rules case from a given source of numbers. Hypothesis uses it to find and shrink inputs."""
    pools = random_capacity.pools(draw)
    running: list[Object] = []
    nodes = random_capacity.nodes(draw, pools, running)
    workloads = random_workloads.workloads(draw)
    daemons = random_capacity.daemons(draw)
    spaces = [_namespace("default", {}), _namespace("other", {"kind": "shared"})]
    needs_storage = any("volumes" in workload["spec"]["template"]["spec"] for workload in workloads)
    storage = random_capacity.storage() if needs_storage else []
    manifests = [*pools, *spaces, *nodes, *running, *daemons, *storage, *workloads]
    return Case(number, manifests, random_capacity.catalogue(draw))


def load_case(number: int, pods: int = random_loads.PODS) -> Case:
    """Draw a load of 400 pods on the built-in EC2 catalogue."""
    return Case(number, random_loads.load(Random(f"load {number}"), pods), None)


def _namespace(name: str, entries: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": entries}}
