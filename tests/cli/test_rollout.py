"""``tenon rollout`` against a small API server and the workflow of a NodeRollout on a real Temporal server."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner, Result

from cli.main import app
from cli.name_completion import rollout_names
from cli.nodes import requests
from cli.rollout_status import PoolView, RolloutStatus
from cli.rollout_view.tables import print_rollout, show_document
from tenon.apis.noderollout import NodeRollout
from tenon.apis.validation import parse
from tenon.messages.rollout import HeldNode
from tenon.rollout import page
from tests.cli.fleet_api import POOLS, FakeFleet, serving_fleet
from tests.workflows.rollout_world import World, changed, rollout
from tests.workflows.waiting import PATIENCE, until
from workflows import names
from workflows.rollout import RolloutWorkflow

pytestmark = pytest.mark.integration

ROLLOUTS = "/apis/tenon.sh/v1alpha1/noderollouts"
Tenon = Callable[..., Result]
SPEC: dict[str, Any] = {
    "nodePoolSelector": {"matchLabels": {"team": "web"}},
    "strategy": {"waves": ["1", "10%", "100%"]},
    "gates": {
        "approval": [3],
        "prometheus": [{"name": "errors", "address": "http://p:9090", "query": "x", "max": "1"}],
    },
    "windows": [{"schedule": "0 9 * * 1-5", "duration": "8h", "timezone": "Europe/Berlin"}],
}
ROW = {
    "name": "web",
    "currentRevision": "old",
    "targetRevision": "new",
    "phase": "Progressing",
    "wave": 2,
    "waveClaims": ["web-1"],
    "message": "wave 2: 3 of 6 nodes replaced, 2 leave now",
}


def noderollout(name: str, *rows: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"nodePools": list(rows)}}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFleet]:
    """An API server with the NodePool web, which NodeRollout careful governs, and batch, which none does."""
    fleet = FakeFleet()
    fleet.add(POOLS, {"metadata": {"name": "web", "labels": {"team": "web"}}, "spec": {}})
    fleet.add(POOLS, {"metadata": {"name": "batch"}, "spec": {}})
    fleet.objects[ROLLOUTS] = []
    fleet.add(ROLLOUTS, noderollout("careful", ROW, **SPEC))
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    with serving_fleet(fleet, tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield fleet


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, cluster: str, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> Tenon:
    """Runs ``tenon rollout`` where Temporal answers."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    monkeypatch.setattr("cli.rollout_view.reading.QUERY_TIMEOUT", PATIENCE)
    monkeypatch.setattr(requests, "ANSWERED_WITHIN", PATIENCE)
    return run


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rollout", *arguments])


def test_the_objects_of_these_tests_are_valid(fleet: FakeFleet) -> None:
    assert [parse(NodeRollout, body)[1] for body in fleet.objects[ROLLOUTS]] == [[]]


def test_list_has_a_row_for_each_nodepool_and_needs_no_temporal(fleet: FakeFleet) -> None:
    fleet.add(ROLLOUTS, noderollout("all"))
    table = run("list")
    assert (table.exit_code, table.stderr) == (0, "")
    header, first, second = table.stdout.splitlines()
    assert header.split() == ["NODEROLLOUT", "NODEPOOL", "PHASE", "CURRENT", "TARGET", "WAVE", "MESSAGE"]
    assert first.split(maxsplit=6) == ["all", "-", "-", "-", "-", "-", "the status names no NodePool yet"]
    assert second.split(maxsplit=6) == ["careful", "web", "Progressing", "old", "new", "2/3", ROW["message"]]
    rows = json.loads(run("list", "-o", "json").stdout)
    assert rows[1] == {
        "nodeRollout": "careful",
        "nodePool": "web",
        "phase": "Progressing",
        "current": "old",
        "target": "new",
        "wave": 2,
        "message": ROW["message"],
    }


def test_a_noderollout_that_cannot_be_read_does_not_hide_the_others(fleet: FakeFleet) -> None:
    fleet.add(ROLLOUTS, noderollout("broken", strategy={"waves": ["many"]}))
    fleet.add(ROLLOUTS, noderollout("later", {"name": "gpu", "phase": "Dancing"}))
    rows = json.loads(run("list", "-o", "json").stdout)
    assert [(row["nodeRollout"], row["phase"]) for row in rows] == [
        ("broken", ""),
        ("careful", "Progressing"),
        ("later", "Dancing"),
    ]
    assert rows[0]["message"].startswith("spec.strategy.waves[0]")


def test_a_cluster_without_the_kind_says_what_to_do(fleet: FakeFleet) -> None:
    del fleet.objects[ROLLOUTS]
    result = run("list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "The API server does not serve noderollouts.tenon.sh: apply its CustomResourceDefinition.\n"
    )


def test_an_empty_cluster_says_so_and_is_an_empty_list_in_json(fleet: FakeFleet) -> None:
    fleet.objects[ROLLOUTS] = []
    assert run("list").stderr == "The cluster has no NodeRollout.\n"
    assert json.loads(run("list", "-o", "json").stdout) == []


@pytest.mark.usefixtures("fleet")
def test_show_says_what_is_asked_for_and_without_temporal_what_the_status_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    result = run("show", "careful", "--cluster", "c")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("From the status alone, without waves and evidence: Temporal at 127.0.0.1:1 ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout.splitlines() == [
        "NodeRollout careful",
        "  selects     NodePools with team=web",
        "  waves       1, 10%, 100%; order Fleet",
        "  pace        soak 10m, at most 10% unavailable",
        "  gates       initialized within 15m; pods Ready within 10m; restarts not above old nodes; no new faults; "
        "query errors; approval of wave 3",
        "  on failure  Halt",
        "  window      0 9 * * 1-5 for 8h (Europe/Berlin)",
        "",
        "NodePool web: Progressing",
        "  current version old, target new",
        "  wave 2/3",
        f"  {ROW['message']}",
    ]
    document = json.loads(run("show", "careful", "--cluster", "c", "-o", "json").stdout)
    assert "cannot be reached" in document["progressProblem"]
    assert document["spec"]["strategy"]["waves"] == ["1", "10%", "100%"]
    assert [(pool["nodePool"], pool["wave"], pool["waves"]) for pool in document["nodePools"]] == [("web", 2, [])]
    missing = run("show", "nope", "--cluster", "c")
    assert (missing.exit_code, missing.stderr) == (2, "There is no NodeRollout nope: `tenon rollout list` shows all.\n")


def test_show_names_the_nodes_that_cannot_leave() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    why = "pod shop/job has the annotation karpenter.sh/do-not-disrupt"
    held_node = HeldNode(claim="web-1", since=since, why=why)
    view = RolloutStatus("careful", pools=[PoolView("web", "Progressing", "old", "new", held_nodes=[held_node])])
    console = Console(file=io.StringIO(), width=200)
    print_rollout(view, console)
    assert f"  web-1 cannot leave since 2026-01-01 00:00:00 UTC: {why}" in console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    (pool,) = show_document(view)["nodePools"]
    assert pool["heldNodes"] == [{"nodeClaim": "web-1", "since": "2026-01-01T00:00:00Z", "reason": why}]


def test_show_says_that_no_workflow_runs(tenon: Tenon) -> None:
    result = tenon("show", "careful")
    assert result.exit_code == 0, result.output
    assert "No workflow of NodeRollout careful is running" in result.stderr
    assert "NodePool web: Progressing" in result.stdout


async def test_show_has_the_waves_with_their_evidence(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon
) -> None:
    world = World()
    world.bad = "new"
    show = partial(asyncio.to_thread, tenon, "show", "careful")
    with temporal.with_time_skipping_disabled():
        async with rollout(temporal, cluster, world) as handle:
            await changed(handle, world)
            await handle.signal(RolloutWorkflow.poke)  # so that it looks at the wave without a wait
            await until(partial(world.reached, "Halted"))

            async def is_shown() -> bool:
                document = json.loads((await show("-o", "json")).stdout)
                return (document["progressProblem"], document["nodePools"][0]["phase"]) == ("", "Halted")

            await until(is_shown)
            (pool,) = json.loads((await show("-o", "json")).stdout)["nodePools"]
            (wave,) = pool["waves"]
            evidence = "pods ready: Fail, web-1 of NodePool | web"
            assert (wave["wave"], wave["evidence"]) == ("wave 1", [evidence])
            assert wave["began"] <= wave["ended"]
            table = (await show()).stdout.splitlines()
    place = next(place for place, line in enumerate(table) if line.startswith("WAVE "))
    assert table[place - 5] == "NodePool web: Halted"
    assert table[place - 3 : place - 1] == ["  wave 1/3", "  began because: a new version begins"]
    assert table[place + 1].startswith("wave 1  ")
    assert table[place + 1].endswith(f"failed: pods ready: web-1 of NodePool | web  {evidence}")


async def test_each_request_is_answered_and_refused_in_a_sentence(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon
) -> None:
    world = World(gates={"approval": [1]})
    why = ("--by", "ann", "--ticket", "OPS-1", "--reason", "a test")

    async def ask(action: str, *options: str) -> tuple[int, str, str]:
        answer = await asyncio.to_thread(tenon, action, "web", *options, *why)
        return answer.exit_code, answer.stdout, answer.stderr

    def refusal(phase: str, why_not: str) -> tuple[int, str, str]:
        return 2, "", f"NodeRollout careful refuses: the rollout of NodePool web is {phase}: {why_not}.\n"

    with temporal.with_time_skipping_disabled():
        async with rollout(temporal, cluster, world) as handle:
            assert await ask("approve") == refusal("Settled", "no wave waits for an approval")
            assert await ask("pause") == refusal("Settled", "only one in progress can pause")
            assert await ask("resume") == refusal("Settled", "nothing is held")
            assert await ask("abort") == refusal("Settled", "nothing is under way")
            assert await ask("rollback") == refusal("Settled", "there is no version to go back from")
            assert await ask("start") == (0, "web: all nodes are replaced (ann, OPS-1, a test)\n", "")
            await until(partial(world.reached, "Progressing"))
            assert await ask("start") == refusal("Progressing", "only a settled one can start again")
            assert await ask("abort") == (0, "web: aborted (ann, OPS-1, a test)\n", "")
            await until(partial(world.reached, "Settled"))  # what was in progress is not the new version
            await changed(handle, world)
            assert await ask("pause") == (0, "web: paused (ann, OPS-1, a test)\n", "")
            assert await ask("resume") == (0, "web: continued (ann, OPS-1, a test)\n", "")
            assert await ask("approve", "--wave", "2") == (0, "web: wave 2 approved (ann, OPS-1, a test)\n", "")
            assert await ask("approve") == (0, "web: wave 1 approved (ann, OPS-1, a test)\n", "")
            assert await ask("rollback") == (0, "web: rolled back (ann, OPS-1, a test)\n", "")


async def test_show_keeps_who_started_a_rollout_and_why_while_its_waves_go_on(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon
) -> None:
    why = ("--by", "ann", "--ticket", "OPS-1", "--reason", "a new image under the same name")
    cause = "all nodes are replaced (ann, OPS-1, a new image under the same name)"
    world = World()

    async def show(*options: str) -> str:
        return (await asyncio.to_thread(tenon, "show", "careful", *options)).stdout

    with temporal.with_time_skipping_disabled():
        async with rollout(temporal, cluster, world) as handle:
            await until(partial(world.reached, "Settled"))
            answer = await asyncio.to_thread(tenon, "start", "web", *why)
            assert answer.exit_code == 0, answer.output

            async def is_in_a_wave() -> bool:
                (progress,) = await handle.query(RolloutWorkflow.progress)
                return progress.began is not None and progress.message != cause

            await until(is_in_a_wave)
            lines = (await show()).splitlines()
            (pool,) = json.loads(await show("-o", "json"))["nodePools"]
    assert f"  began because: {cause}" in lines
    assert [line for line in lines if line.endswith(" UTC ann: start (OPS-1, a new image under the same name)")]
    assert pool["cause"] == cause
    (operation,) = pool["operations"]
    assert (operation["action"], operation["by"], operation["ticket"]) == ("start", "ann", "OPS-1")


async def test_without_a_name_the_user_of_the_command_asks(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon
) -> None:
    with temporal.with_time_skipping_disabled():
        async with rollout(temporal, cluster, World()):
            answer = await asyncio.to_thread(tenon, "start", "web")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.endswith(" with tenon rollout)\n")


@pytest.mark.parametrize(
    ("pool", "sentence"),
    [
        ("nope", "There is no NodePool nope."),
        (
            "batch",
            "No NodeRollout governs NodePool batch: apply one whose nodePoolSelector matches its labels, "
            "or one without a nodePoolSelector.",
        ),
        ("auto", "Tenon does not manage NodePool auto: its nodeClassRef names no EC2NodeClass."),
        ("web", "No workflow of NodeRollout careful is running: a worker with its CustomResourceDefinition starts it."),
    ],
)
def test_a_nodepool_without_a_rollout_that_runs_says_what_to_do(
    tenon: Tenon, fleet: FakeFleet, pool: str, sentence: str
) -> None:
    reference = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    fleet.pool("auto", template={"spec": {"nodeClassRef": reference}})
    result = tenon("pause", pool, "--reason", "a test")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{sentence}\n")


async def test_without_a_worker_the_request_is_not_kept(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "ANSWERED_WITHIN", timedelta(seconds=1))
    handle = await temporal.client.start_workflow(
        RolloutWorkflow.run,
        page.first_input(cluster, "careful"),
        id=names.rollout_id(cluster, "careful"),
        task_queue=names.task_queue(cluster),
    )
    result = await asyncio.to_thread(tenon, "pause", "web", "--by", "ann")
    await handle.terminate()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "NodeRollout careful: no worker answered within 1s. Try again when one runs.\n"


def test_a_shell_completes_noderollouts(fleet: FakeFleet) -> None:
    fleet.add(ROLLOUTS, noderollout("all"))
    assert rollout_names("c") == ["careful"]
