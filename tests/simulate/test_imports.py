"""What a plan from files does not load, because all of its time goes to reading modules and the catalogue."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.simulate.running import POOL, catalogue, deployment

CODE = """
import os
import sys

from cli.main import main

try:
    main()
finally:
    print(len(os.listdir("/proc/self/task")), file=sys.stderr)
    print(*sys.modules, file=sys.stderr)
"""
CLIENTS = {"temporalio", "kubernetes", "boto3", "botocore", "aiohttp", "opentelemetry", "prometheus_client", "grpc"}
DISRUPTION = {"cli.simulating.disrupting", "tenon.disruption.deciding", "tenon.disruption.search.move_planner"}
OF_DISRUPTION = {"tenon.disruption", "activities.disruption.repair_source", "worker.cache.managed_nodes"}
MESSAGES = {
    "tenon.messages.disruption",
    "tenon.messages.launch",
    "tenon.messages.node",
    "tenon.messages.node_steps",
    "tenon.messages.provisioning",
}
OLD_VERSIONS = {"tenon.apis.legacy.kinds", "tenon.apis.crd_kinds", "tenon.manifests.batch_conversion"}
SETTINGS = {"worker.settings"}
OTHER_KINDS = {
    "tenon.apis.disruptionfreeze",
    "tenon.apis.noderepairpolicy",
    "tenon.apis.noderollout",
    "tenon.simulation.volume_manifests",
}
OF_OTHER_OBJECTS = {"croniter", "tomllib"}
"""What reads cron schedules and the user data of Bottlerocket."""
EMOJI = {"rich._emoji_codes"}

pytestmark = pytest.mark.integration


class Ended(NamedTuple):
    """A command when it ends."""

    threads: int
    modules: set[str]


def ended(folder: Path, *options: str, pods: int = 3) -> Ended:
    """Run a simulation of a few pods."""
    file = folder / "input.yaml"
    file.write_text(POOL + deployment("web", pods))
    arguments = ["simulate", "-f", str(file), "--catalog", str(catalogue(folder)), *options]
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    ran = subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr
    threads, modules = ran.stderr.splitlines()[-2:]
    return Ended(int(threads), set(modules.split()))


def test_a_plan_from_files_loads_only_what_it_uses(tmp_path: Path) -> None:
    modules = ended(tmp_path).modules
    assert "tenon.scheduling.engine" in modules
    assert modules.isdisjoint(CLIENTS | DISRUPTION | OF_DISRUPTION | MESSAGES | OLD_VERSIONS | SETTINGS)
    assert modules.isdisjoint(OTHER_KINDS | OF_OTHER_OBJECTS | EMOJI)


def test_a_plan_as_json_loads_no_library_for_terminals(tmp_path: Path) -> None:
    assert "rich" not in ended(tmp_path, "-o", "json").modules


def test_a_plan_without_new_nodes_loads_no_solver(tmp_path: Path) -> None:
    assert "highspy" in ended(tmp_path).modules
    assert "highspy" not in ended(tmp_path, pods=0).modules


def test_a_plan_from_files_has_one_thread(tmp_path: Path) -> None:
    """Each further thread of NumPy's BLAS spins for a tenth of a small plan's time, on any machine with more cores."""
    assert ended(tmp_path).threads == 1


def test_disruption_from_files_loads_no_client(tmp_path: Path) -> None:
    modules = ended(tmp_path, "--disruption").modules
    assert modules >= DISRUPTION
    assert modules.isdisjoint(CLIENTS)
