"""Settings as a running worker and its operator have them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONFIGMAPS
from sandbox.cluster import Sandbox
from tests.e2e.worker import Worker
from tests.e2e.worker_process import environment
from tests.workflows.waiting import until

OLD = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "karpenter-global-settings", "namespace": "tenon"},
    "data": {
        "aws.clusterName": "from-long-ago",
        "batchMaxDuration": "20s",
        "aws.assumeRoleARN": "arn:aws:iam::1:role/x",
        "aws.tags": '{"team": "a"}',
    },
}


def settings_shown(sandbox: Sandbox, **changed: str | None) -> dict[str, Any]:
    """What `tenon settings` says with the worker's own rights."""
    answer = subprocess.run(
        [sys.executable, "-m", "cli", "settings", "-o", "json"],
        env=environment(sandbox, **changed),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


async def test_leg50_leg51_settings_that_never_left_their_config_map_count_as_the_lowest(
    sandbox: Sandbox, kube: Kube
) -> None:
    """By the worker's own rights, so that a deployment by the manifests of this repository reads them too."""
    await kube.create(CONFIGMAPS, OLD)
    try:
        document = await asyncio.to_thread(settings_shown, sandbox, CLUSTER_NAME=None, BATCH_IDLE_DURATION="2s")
    finally:
        await kube.delete(CONFIGMAPS, "karpenter-global-settings", namespace="tenon")
    values = {row["name"]: (row["value"], row["source"]) for row in document["settings"]}
    assert values["CLUSTER_NAME"] == ("from-long-ago", "ConfigMap")
    assert values["BATCH_MAX_DURATION"] == ("20s", "ConfigMap")
    assert values["BATCH_IDLE_DURATION"] == ("2s", "environment")
    assert values["DEFAULT_TAGS"] == ('{"team": "a"}', "ConfigMap")
    assert document["configMaps"]["found"] == ["karpenter-global-settings"]
    assert any(note.startswith("aws.assumeRoleARN no longer exists: ") for note in document["notes"])


async def test_ops03_set10_a_running_worker_shows_where_it_spends_its_time(worker: Worker) -> None:
    """Both processes answer through the metrics port of the worker."""

    async def both_answer() -> bool:
        profile = await asyncio.to_thread(worker.page, "/debug/pprof/profile?seconds=0")
        return {line.split(";")[0] for line in profile.splitlines()} == {"io", "cluster"}

    await until(both_answer)


@pytest.mark.usefixtures("worker")
async def test_the_status_of_a_sandbox_names_the_worker_that_leads(sandbox: Sandbox) -> None:
    """Without one, nothing happens to pods that wait, and all components run."""

    async def named() -> bool:
        command = (sys.executable, "-m", "cli", "sandbox", "status", "--state", str(sandbox.layout.root), "-o", "json")
        answer = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        return bool(json.loads(answer.stdout)["leading_worker"]["holder"])

    await until(named)
