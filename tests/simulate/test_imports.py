"""What a plan from files does not load, because all of its time goes to reading modules and the catalogue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulate.running import POOL, catalogue, deployment

CODE = """
import sys

from cli.main import main

try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
CLIENTS = {"temporalio", "kubernetes", "boto3", "botocore", "aiohttp", "opentelemetry", "prometheus_client", "grpc"}
DISRUPTION = {"cli.simulating.disrupting", "tenon.disruption.deciding", "tenon.disruption.search.move_planner"}
OF_DISRUPTION = {"tenon.disruption", "activities.disruption.repair_source", "worker.cache.managed_nodes"}
MESSAGES = {"tenon.messages.disruption", "tenon.messages.launch", "tenon.messages.node", "tenon.messages.node_steps"}
OLD_VERSIONS = {"tenon.apis.legacy.kinds", "tenon.apis.crd_kinds", "tenon.manifests.batch_conversion"}
SETTINGS = {"worker.settings"}

pytestmark = pytest.mark.integration


def loaded_modules(folder: Path, *options: str) -> set[str]:
    """The modules that the command has loaded when it ends."""
    file = folder / "input.yaml"
    file.write_text(POOL + deployment("web", 3))
    arguments = ["simulate", "-f", str(file), "--catalog", str(catalogue(folder)), *options]
    ran = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.splitlines()[-1].split())


def test_a_plan_from_files_loads_only_what_it_uses(tmp_path: Path) -> None:
    modules = loaded_modules(tmp_path)
    assert "tenon.scheduling.engine" in modules
    assert modules.isdisjoint(CLIENTS | DISRUPTION | OF_DISRUPTION | MESSAGES | OLD_VERSIONS | SETTINGS)


def test_disruption_from_files_loads_no_client(tmp_path: Path) -> None:
    modules = loaded_modules(tmp_path, "--disruption")
    assert modules >= DISRUPTION
    assert modules.isdisjoint(CLIENTS)
