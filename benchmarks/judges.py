"""Judges of random plans: this repository's own oracle, and any other program that the user names."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.random_cases import Case
from cli.simulating import builtin
from tests.oracle.judging import judge

Verdict = list[tuple[str, str]]
"""(rule, explanation) of each violation."""
Judge = Callable[[Case, Path, Path, dict[str, Any]], Verdict]
"""Takes the case, its manifests and catalogue as files, and the plan."""


def oracle(case: Case, _manifests: Path, _catalogue: Path, plan: dict[str, Any]) -> Verdict:
    """Judge a plan with this repository's oracle."""
    return [
        (result.rule, f"{result.where}: {result.text}") for result in judge(case.manifests, catalogue_of(case), plan)
    ]


def catalogue_of(case: Case) -> Any:
    """Return the catalogue that a case is planned with."""
    return case.catalogue if case.catalogue is not None else _built_in()


@cache
def _built_in() -> Any:
    return builtin.load()


def outside(command: str) -> Judge:
    """Return a judge that runs ``COMMAND -f MANIFESTS --catalog CATALOGUE PLAN``, which prints one violation per line.

    A line may be a JSON object with ``rule``. A Python file with the functions ``read_scenario([manifests],
    catalogue)``
    and ``check(scenario, plan)`` is imported instead, which saves a process for each plan.
    """
    path = Path(command)
    if path.suffix == ".py" and path.is_file():
        library = _imported(path)
        if hasattr(library, "check") and hasattr(library, "read_scenario"):
            return lambda _, manifests, catalogue, plan: [
                (str(result.rule), f"{result.where}: {result.pod} {result.detail}")
                for result in library.check(library.read_scenario([manifests], catalogue), plan)
            ]
        command = f"{shlex.quote(sys.executable)} {shlex.quote(command)}"
    return lambda _, manifests, catalogue, plan: _run(shlex.split(command), manifests, catalogue, plan)


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("outside_judge", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _run(command: list[str], manifests: Path, catalogue: Path, plan: dict[str, Any]) -> Verdict:
    file = manifests.with_name("plan.json")
    file.write_text(json.dumps(plan))
    done = subprocess.run(
        [*command, "-f", str(manifests), "--catalog", str(catalogue), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"the judge {command[0]} failed:\n{done.stderr}")
    return [_line(line) for line in done.stdout.splitlines() if line.strip()]


def _line(text: str) -> tuple[str, str]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    rule = document.get("rule") if isinstance(document, dict) else None
    return str(rule or "violation"), text
