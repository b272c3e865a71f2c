"""How long one search for moves takes on clusters whose pods have rules between pods, in CPU-seconds.

The clusters are those of the properties of consolidation: nodes of three families whose pods are of four apps. Pods may
keep off pods of their app, or spread over zones or nodes. The digest says whether two versions decide the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from math import inf

from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command
from tenon.disruption.methods.consolidation import Consolidation
from tests.tenon.disruption.clusters import situation
from tests.tenon.disruption.random_clusters import large_cluster


def measure(seed: int, nodes: int, limit: float = inf) -> dict[str, object]:
    """Search for moves once, for at most ``limit`` CPU-seconds, and return the figures."""
    value = situation(large_cluster(seed, nodes, rules=True))
    assert value.model is not None
    began = time.process_time()

    def expired() -> bool:
        return time.process_time() - began > limit

    decision = decide(value, [Consolidation(deadline=lambda: expired)])
    seconds = time.process_time() - began
    for error in decision.failed.values():
        raise error
    return {
        "seed": seed,
        "nodes": nodes,
        "pods": sum(len(detail.pods) for detail in value.model.details.values()),
        "cpuSeconds": round(seconds, 2),
        "reachedItsEnd": seconds <= limit,
        "commands": len(decision.commands),
        "nodesRemoved": sum(len(command.candidates) for command in decision.commands),
        "saved": round(sum(command.expected for command in decision.commands), 4),
        "digest": _digest(decision.commands),
    }


def _digest(commands: Sequence[Command]) -> str:
    lines = [
        (
            sorted(candidate.node.claim for candidate in command.candidates),
            [(claim.offering, claim.instance_types, [pod.key for pod in claim.pods]) for claim in command.replacements],
            sorted((name, [pod.key for pod in pods]) for name, pods in command.destinations.items()),
        )
        for command in commands
    ]
    return hashlib.sha256(repr(lines).encode()).hexdigest()[:12]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.consolidation_with_rules", description=__doc__)
    arguments.add_argument("--nodes", type=int, default=285)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--limit", type=float, default=inf, help="CPU-seconds of a search; none by default")
    options = arguments.parse_args()
    for seed in options.seeds:
        print(json.dumps(measure(seed, options.nodes, options.limit)), flush=True)


if __name__ == "__main__":
    main()
