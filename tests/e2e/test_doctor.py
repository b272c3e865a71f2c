"""`tenon doctor` on the sandbox: nothing is wrong where a worker runs, and what is taken away is named."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from sandbox.cluster import Sandbox
from tests.e2e.conftest import COMMAND_SECONDS, NewPool
from tests.e2e.worker_process import environment

pytestmark = pytest.mark.refuses("iam:GetRole")


def doctor(sandbox: Sandbox, **changed: str | None) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the findings by check."""
    answer = subprocess.run(
        [sys.executable, "-m", "cli", "doctor", "-o", "json"],
        env=environment(sandbox, **changed),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert answer.stdout, answer.stderr
    return answer.returncode, {load["check"]: load for load in json.loads(answer.stdout)}


async def test_where_a_worker_runs_nothing_is_wrong(sandbox: Sandbox, new_pool: NewPool) -> None:
    """With the worker's own rights in Kubernetes and AWS."""
    async with new_pool() as pool:
        await pool.deploy(1)
        await pool.running(1)
        status, result = await asyncio.to_thread(doctor, sandbox, INTERRUPTION_QUEUE=sandbox.cluster_name)
    assert {check: item for check, item in result.items() if item["state"] != "ok"}.keys() <= {"access entry"}, result
    assert status == 0
    assert {"Temporal", "search attributes", "rights in Kubernetes", "CRDs", "leader", "rights in AWS"} <= result.keys()


async def test_what_is_wrong_is_a_fault_with_its_mend(sandbox: Sandbox) -> None:
    changed = {"TEMPORAL_ADDRESS": "127.0.0.1:9", "INTERRUPTION_QUEUE": None, "BATCH_IDLE_DURATION": "soon"}
    status, result = await asyncio.to_thread(doctor, sandbox, **changed)
    assert status == 1
    assert result["Temporal"]["state"] == "fault"
    assert "TEMPORAL_ADDRESS" in result["Temporal"]["remedy"]
    assert result["settings"]["state"] == "fault"
    assert "BATCH_IDLE_DURATION" in result["settings"]["sentence"]
    assert result["rights in Kubernetes"]["state"] == "ok"


async def test_without_a_named_cluster_the_sandbox_of_this_folder_is_checked(sandbox: Sandbox) -> None:
    unnamed: dict[str, str | None] = dict.fromkeys(sandbox.worker_env())
    folder = str(sandbox.layout.root)
    status, result = await asyncio.to_thread(doctor, sandbox, **unnamed | {"TENON_SANDBOX_DIR": folder})
    assert {check: item for check, item in result.items() if item["state"] == "fault"} == {}
    assert status == 0
    assert sandbox.cluster_name in result["settings"]["sentence"]
