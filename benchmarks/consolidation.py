"""How long consolidation takes to decide on a large cluster of which half is waste, what it saves, and its memory.

The lower bound is the least that new nodes for the same pods can cost. The second look is at the cluster as the
commands of the first leave it, with the tables of instance types that the first look made.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from math import inf
from unittest.mock import patch

from benchmarks.wasteful import Wasteful, wasteful_cluster
from tenon.disruption.deciding import decide
from tenon.disruption.methods import consolidation_search
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.move_planner import Planner
from tenon.disruption.methods.moves import Move
from tenon.disruption.model import Decision
from tenon.scheduling.bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Problem


def measure(cluster: Wasteful, limit: float = inf) -> dict[str, object]:
    """Decide once, and again on what this leaves, and return the figures. Each look ends after ``limit`` seconds."""
    before = _megabytes()
    decision, cost = _look(cluster, limit)
    peak = _megabytes()
    second, second_cost = _look(cluster.after(decision.commands), limit)
    afresh = _afresh(cluster)
    price = sum(detail.price for detail in cluster.model.details.values())
    return {
        "nodes": len(cluster.model.details),
        "pods": len(afresh.pods),
        "nodePools": len(cluster.model.problem.pools),
        **cost,
        "megabytes": round(peak),
        "megabytesBefore": round(before),
        "commands": len(decision.commands),
        "nodesRemoved": sum(len(command.candidates) for command in decision.commands),
        "nodesLaunched": sum(len(command.replacements) for command in decision.commands),
        "largestCommand": max((len(command.candidates) for command in decision.commands), default=0),
        "podsMoved": _moved(decision),
        "priceBefore": round(price, 2),
        "priceAfter": round(price - _saved(cluster, decision), 2),
        "priceBoughtAfresh": round(sum(claim.price for claim in solve(afresh).claims), 2),
        "lowerBound": round(lower_bound(afresh), 2),
        "secondLook": {
            **second_cost,
            "commands": len(second.commands),
            "nodesRemoved": sum(len(command.candidates) for command in second.commands),
            "saved": round(sum(command.saving for command in second.commands), 4),
        },
        "kinds": {f"{old} to {new}": count for (old, new), count in _kinds(decision).most_common(8)},
    }


def _look(cluster: Wasteful, limit: float) -> tuple[Decision, dict[str, float]]:
    """Return a decision and what it cost."""
    first: list[float] = []
    began, began_cpu = time.perf_counter(), time.process_time()

    class Observed(Planner):
        """Notes when the first moves were found. A decision gives its commands when the search is over."""

        def accept(self, moves: Sequence[Move]) -> None:
            if moves:
                first.append(time.perf_counter() - began)
            super().accept(moves)

    def expired() -> bool:
        return time.perf_counter() - began > limit

    with patch.object(consolidation_search, "Planner", Observed):
        decision = decide(cluster.situation, [Consolidation(deadline=lambda: expired)])
    for error in decision.failed.values():
        raise error
    return decision, {
        "secondsToFirstMove": round(first[0], 2) if first else 0.0,
        "seconds": round(time.perf_counter() - began, 2),
        "cpuSeconds": round(time.process_time() - began_cpu, 2),
    }


def _afresh(cluster: Wasteful) -> Problem:
    pods = [pod for detail in cluster.model.details.values() for pod in detail.pods]
    return Problem(pods, cluster.model.problem.pools)


def _saved(cluster: Wasteful, decision: Decision) -> float:
    """What the commands save if every new node is launched as its cheapest type."""
    details = cluster.model.details
    return sum(
        sum(details[candidate.node.claim].price for candidate in command.candidates)
        - sum(claim.price for claim in command.replacements)
        for command in decision.commands
    )


def _moved(decision: Decision) -> int:
    return sum(
        sum(len(claim.pods) for claim in command.replacements) + sum(map(len, command.destinations.values()))
        for command in decision.commands
    )


def _kinds(decision: Decision) -> Counter[tuple[int, int]]:
    return Counter((len(command.candidates), len(command.replacements)) for command in decision.commands)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.consolidation", description=__doc__)
    arguments.add_argument("--nodes", type=int, default=1_000)
    arguments.add_argument("--pods", type=int, help="10 for each node by default")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--budget", default="100%", help="of each NodePool")
    arguments.add_argument("--node-pools", type=int, default=1)
    arguments.add_argument("--limit", type=float, default=inf, help="seconds of a look; 60 in the worker")
    given = arguments.parse_args()
    cluster = wasteful_cluster(given.nodes, given.pods or 10 * given.nodes, given.seed, given.budget, given.node_pools)
    figures = measure(cluster, given.limit)
    json.dump(figures, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
