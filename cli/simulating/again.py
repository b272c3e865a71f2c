"""Solves a problem that the worker saved because its engine failed on it."""

from __future__ import annotations

import gzip
from pathlib import Path

from tenon.provisioning.problem_json import from_json
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.model import Problem


def read_problem(path: Path) -> Problem:
    """Return the problem in a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file does not contain a problem.
    """
    try:
        return from_json(gzip.decompress(path.read_bytes()))
    except EOFError as error:
        raise ValueError("it is incomplete") from error


def solve_again(problem: Problem) -> str:
    """Solve the problem and return the plan, one line per part. Errors of the engine propagate."""
    plan = solve_with_buffers(problem)
    lines = [
        f"buy for {', '.join(pod.key for pod in claim.pods)}: {claim.instance_types[0]} of NodePool {claim.pool}"
        for claim in plan.claims
    ]
    lines += [f"on {name}: {', '.join(pod.key for pod in pods)}" for name, pods in plan.placements.items()]
    lines += [f"no place for {key}: {why}" for key, why in plan.unschedulable.items()]
    return "\n".join(lines)
