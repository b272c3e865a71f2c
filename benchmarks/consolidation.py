"""How long consolidation takes to decide on a large cluster of which half is waste, what it saves, and its memory.

In a large cluster, a round of looks considers a part of the nodes each. Each look is at the cluster as the commands of
the one before leave it, with the tables of instance types that it made. Pods that a look moved rest until the round is
over. The lower bound is the least that new nodes for the same pods can cost. The second round is at the cluster as the
first leaves it, and there all pods may move again.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from unittest.mock import patch

from benchmarks.wasteful import Wasteful, wasteful_cluster
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.search import consolidation_search
from tenon.disruption.search.move_planner import Planner
from tenon.disruption.search.moves import Move
from tenon.messages.disruption import PassCursor
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Problem


@dataclass
class Round:
    """The looks at the whole cluster, one after another, and their commands."""

    commands: list[Command] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each look."""
    cpu_seconds: list[float] = field(default_factory=list)
    first_move: float = 0.0
    """Seconds until the first look found its first moves."""
    first_commands: float = 0.0
    """Seconds until a look that found commands ended."""
    saved: float = 0.0
    """If every new node is launched as its cheapest type."""
    moved: int = 0

    def figures(self) -> dict[str, object]:
        """Return what it found and cost."""
        return {
            "looks": len(self.seconds),
            "secondsToFirstMove": round(self.first_move, 2),
            "secondsToFirstCommands": round(self.first_commands, 2),
            "seconds": round(sum(self.seconds), 2),
            "cpuSeconds": round(sum(self.cpu_seconds), 2),
            "longestLook": round(max(self.seconds), 2),
            "longestLookCpu": round(max(self.cpu_seconds), 2),
            "commands": len(self.commands),
            "nodesRemoved": sum(len(command.candidates) for command in self.commands),
            "nodesLaunched": sum(len(command.replacements) for command in self.commands),
            "largestCommand": max((len(command.candidates) for command in self.commands), default=0),
            "podsMoved": self.moved,
            "saved": round(self.saved, 4),
        }


def measure(cluster: Wasteful, limit: float = inf) -> dict[str, object]:
    """Play a round, and another one on what this leaves, and return the figures. Each look ends after ``limit``."""
    before = _megabytes()
    first, remainder = _round(cluster, limit)
    peak = _megabytes()
    second, _ = _round(remainder, limit)
    afresh = _afresh(cluster)
    price = sum(detail.price for detail in cluster.model.details.values())
    return {
        "nodes": len(cluster.model.details),
        "pods": len(afresh.pods),
        "nodePools": len(cluster.model.problem.pools),
        **first.figures(),
        "megabytes": round(peak),
        "megabytesBefore": round(before),
        "priceBefore": round(price, 2),
        "priceAfter": round(price - first.saved, 2),
        "priceBoughtAfresh": round(sum(claim.price for claim in solve(afresh).claims), 2),
        "lowerBound": round(lower_bound(afresh), 2),
        "secondRound": second.figures(),
        "kinds": {f"{old} to {new}": count for (old, new), count in _kinds(first.commands).most_common(8)},
    }


def _round(cluster: Wasteful, limit: float) -> tuple[Round, Wasteful]:
    """Look until every node was looked at. Return what was found, and the cluster that it leaves."""
    result = Round()
    cursor = PassCursor()
    while not result.seconds or cursor.more:
        decision, first, seconds, cpu = _look(cluster.at(cursor), limit)
        result.seconds.append(seconds)
        result.cpu_seconds.append(cpu)
        result.first_move = result.first_move or first
        if decision.commands and not result.commands:
            result.first_commands = sum(result.seconds)
        result.commands += decision.commands
        result.saved += _saved(cluster, decision)
        result.moved += _moved(decision)
        cluster = cluster.after(decision.commands)
        assert decision.cursor is not None
        cursor = decision.cursor
    return result, cluster.rested()


def _look(cluster: Wasteful, limit: float) -> tuple[Decision, float, float, float]:
    """Return a decision, after how many seconds its first moves were found, and its seconds and CPU seconds."""
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
    perf_counter, computed = time.perf_counter() - began, time.process_time() - began_cpu
    return decision, first[0] if first else 0.0, perf_counter, computed


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


def _kinds(commands: Iterable[Command]) -> Counter[tuple[int, int]]:
    return Counter((len(command.candidates), len(command.replacements)) for command in commands)


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
    options = arguments.parse_args()
    cluster = wasteful_cluster(
        options.nodes, options.pods or 10 * options.nodes, options.seed, options.budget, options.node_pools
    )
    figures = measure(cluster, options.limit)
    json.dump(figures, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
