"""``tenon simulate --live`` leaves out what EC2 refuses, as the provisioner does, and plans without its answer too."""

from __future__ import annotations

import asyncio
import copy
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner

from cli.main import app
from tenon.apis import labels
from tenon.messages.offerings import OfferingRef
from tests.simulate.api_server import ApiServer, api_server
from tests.simulate.running import POOL, Answer, catalogue, command
from tests.tenon.scheduling.builders import CATALOG, ZONES
from tests.workflows.refusing_ec2 import Planning, provisioner, refusing
from tests.workflows.waiting import PATIENCE
from workflows.provisioner import ProvisionerWorkflow

pytestmark = pytest.mark.integration

WAITS: dict[str, Any] = {
    "metadata": {"name": "waits", "namespace": "team", "uid": "u1"},
    "spec": {"containers": [{"name": "main"}]},
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ApiServer]]:
    """An API server with a NodePool and a pod that waits."""
    with api_server(tmp_path, monkeypatch) as running:
        running.objects = {"nodepools": [yaml.safe_load(POOL)], "pods": [WAITS]}
        yield running


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait as long for an answer as a busy machine takes for it."""
    monkeypatch.setattr("cli.simulating.refusals.ANSWERS_WITHIN", PATIENCE)
    monkeypatch.setattr("cli.refusals.QUERY_TIMEOUT", PATIENCE)


def live(folder: Path) -> Answer:
    return command("--live", "-o", "json", "--catalog", str(catalogue(folder)))


@pytest.mark.usefixtures("server", "_patient")
async def test_the_plan_buys_what_is_left_and_stderr_says_what_is_avoided(
    temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason for the type names the cheaper types that EC2 refused, as `tenon node show` does."""
    cluster = "short"
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    async with provisioner(temporal, cluster, Planning()) as handle:
        before = await asyncio.to_thread(live, tmp_path)
        assert f"the provisioner of cluster {cluster} leaves out no offering, and so does this plan" in before.err
        (claim,) = before.plan["nodeClaims"]
        cheapest = claim["instanceTypes"][0]

        breakers = refusing()
        zones = ("us-west-2a", "us-west-2b", "us-west-2c")
        breakers.mark_unavailable(
            OfferingRef(capacity_type="on-demand", instance_type=cheapest, zone=zone) for zone in zones
        )
        await handle.signal(ProvisionerWorkflow.launches_reported, breakers.report())
        after = await asyncio.to_thread(live, tmp_path)
        assert f"the provisioner of cluster {cluster} leaves out 4 offerings that EC2 refused, and so does" in after.err
        assert f"EC2 refuses 3 on-demand offerings ({cheapest} in 3 zones" in after.err
        assert "NodePool web: its launches are held back" in after.err
        (claim,) = after.plan["nodeClaims"]
        assert cheapest not in claim["instanceTypes"]
        assert f"EC2 refused 1 cheaper type, {cheapest} at $" in claim["why"]


@pytest.mark.usefixtures("_patient")
async def test_a_pod_that_only_refused_types_could_hold_names_them(
    server: type[ApiServer], temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `tenon pods --pending` and `tenon explain pod`."""
    metadata = {"name": "m5", "namespace": "team", "uid": "u2"}
    spec: Any = {**WAITS["spec"], "nodeSelector": {labels.INSTANCE_TYPE: "m5.large"}}
    server.objects = {"nodepools": [yaml.safe_load(POOL)], "pods": [{"metadata": metadata, "spec": spec}]}
    cluster = "named"
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)

    def tenon(*arguments: str) -> Any:
        answer = CliRunner().invoke(app, [*arguments, "-o", "json"])
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    async with provisioner(temporal, cluster, Planning()) as handle:
        breakers = refusing()
        breakers.mark_unavailable(
            OfferingRef(capacity_type=capacity_type, instance_type="m5.large", zone="")
            for capacity_type in ("on-demand", "spot")
        )
        await handle.signal(ProvisionerWorkflow.launches_reported, breakers.report())
        (group,) = (await asyncio.to_thread(tenon, "pods", "--pending"))["groups"]
        explained = await asyncio.to_thread(tenon, "explain", "pod", "m5", "-n", "team")
    assert group["waitsFor"] == "nothing fits"
    assert "EC2 refuses 1 on-demand offering (m5.large in every zone): next attempt at 20" in group["why"]
    assert "; without these: no available instance type of the pool meets node.kubernetes.io/" in group["why"]
    assert explained["why"][0].endswith(group["why"])


@pytest.mark.usefixtures("_patient")
async def test_pods_wait_in_the_plan_as_they_do_in_the_cluster(
    server: type[ApiServer], temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A NodePool has them wait, and EC2 refuses all types but the largest."""
    waiting = yaml.safe_load(POOL)
    waiting["metadata"]["annotations"] = {labels.SHORTAGE_POLICY: "Wait"}
    server.objects = {"nodepools": [waiting], "pods": [WAITS]}
    cluster = "patient"
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    async with provisioner(temporal, cluster, Planning()) as handle:
        breakers = refusing()
        breakers.mark_unavailable(
            OfferingRef(capacity_type="on-demand", instance_type=kind.name, zone=zone)
            for kind in CATALOG
            if not kind.name.endswith(".24xlarge")
            for zone in ZONES
        )
        await handle.signal(ProvisionerWorkflow.launches_reported, breakers.report())
        answer = await asyncio.to_thread(live, tmp_path)
        assert answer.plan["nodeClaims"] == []
        (unscheduled,) = answer.plan["unschedulable"]
        assert unscheduled["pod"] == "team/waits"
        assert "NodePool default: EC2 refused c6g.large at $0.0680 an hour" in unscheduled["reason"]
        assert "the pod waits because " in unscheduled["reason"]
        urgent: Any = copy.deepcopy(WAITS)
        urgent["metadata"]["annotations"] = {labels.SHORTAGE_POLICY: "Buy"}
        server.objects = {"nodepools": [waiting], "pods": [urgent]}
        (claim,) = (await asyncio.to_thread(live, tmp_path)).plan["nodeClaims"]
        assert claim["pods"] == ["team/waits"]


@pytest.mark.usefixtures("server")
def test_without_temporal_the_plan_uses_everything_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("CLUSTER_NAME", "alone")
        monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{unused.getsockname()[1]}")
        answer = live(tmp_path)
    assert len(answer.plan["nodeClaims"]) == 1
    assert (
        "note: offerings that EC2 refuses now are part of the plan, because they are not known: Temporal" in answer.err
    )


@pytest.mark.usefixtures("server")
def test_without_the_name_of_the_cluster_the_plan_says_how_to_name_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    answer = live(tmp_path)
    assert len(answer.plan["nodeClaims"]) == 1
    assert "CLUSTER_NAME" in answer.err
