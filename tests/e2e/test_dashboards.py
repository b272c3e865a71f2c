"""Every query of the worker's dashboards and every alert, on a real Prometheus that scrapes a real worker.

A worker of this module's own launches, replaces and drains nodes; EC2 refuses a launch and interrupts an instance; a
pod fits nowhere. Then each query has series, unless `NOTHING_HAPPENED` says which event did not happen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import pytest_asyncio
import yaml
from temporalio.client import Client

from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.faults import catalogue
from tenon.apis import labels
from tests.e2e.conftest import NewPool
from tests.e2e.other_worker import in_place_of
from tests.e2e.pools import SMALL, WITHIN, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.sweeping import sweep
from tests.prometheus_server import PROGRAM, PrometheusServer, prometheus
from tests.workflows.waiting import until

FILES = Path(__file__).parents[2] / "deploy/chart/files"
REPLICA = 5
SPOT = ("spot",)
UNUSUAL = "m5zn.large"
"""A type that no other test relies on: what EC2 refuses is avoided for minutes, by the plans of later tests too."""
ONLY_UNUSUAL = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [UNUSUAL]}]
ON_DEMAND = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
UNDERUTILIZED = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}}}
ALERTS = FILES / "alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
QUERIES = {
    f"{path.stem} {panel['id']} {panel['title']} {target['refId']}": target["expr"]
    for path in sorted((FILES / "dashboards").glob("*.json"))
    if path.stem != "tenon-shadow"  # no worker has its series: tests/shadow asks for them
    for panel in json.loads(path.read_text())["panels"]
    if panel["type"] != "row"
    for target in panel["targets"]
}
NOTHING_HAPPENED = {
    "tenon_workflow_task_failures_total": "no workflow failed on its code",
    "tenon_workflow_runs_ended_total": "no other version of the worker ran",
    "tenon_worker_version_serves": "worker versioning is off",
    "tenon_nodeclaims_blocked": "nothing keeps a node for ten minutes",
    "tenon_nodeclaims_refused_total": "the API server accepted all NodeClaims",
    "tenon_nodepools_launches_held_back": "EC2 refused launches only for lack of capacity",
    "tenon_nodepools_frozen": "nothing was paused",
    "tenon_rollout_state": "there is no NodeRollout",
    "tenon_rollout_nodes": "there is no NodeRollout",
    "tenon_disruption_approvals_longest_wait_seconds": "no command waited for approval",
    "tenon_garbage_collection_found_total": "nothing was lost",
    "tenon_garbage_collection_ended_total": "nothing was lost",
    "tenon_garbage_collection_failed_total": "nothing was lost",
    "tenon_garbage_collection_held_back": "nothing was lost",
    "tenon_garbage_collection_unread_total": "sweeps read everything",
    "tenon_nodeclaims_foreign_finalizers": "no other controller holds a NodeClaim",
    "tenon_scheduler_failures_total": "the engine failed on no pod",
    "tenon_scheduler_timeouts_total": "all plans were in time",
    "karpenter_voluntary_disruption_queue_failures_total": "no command was undone",
    "karpenter_voluntary_disruption_failed_validations_total": "all commands were still valid",
    "temporal_activity_execution_failed_total": "no activity failed",
    "temporal_workflow_failed_total": "no workflow failed",
    "temporal_sticky_cache_miss_total": "no workflow had left the cache",
    "temporal_long_request_failure_total": "no long poll failed",
}
"""Series that a worker has only after an event, and why there was none. They may be there: another test's worker may
have left something to this one."""
OF_YESTERDAY = "offset 1d"
WAITING = {"TenonPodsHaveNoPlace"}
"""Alerts that what the story leaves must set off. They fire a quarter of an hour later."""
SERIES_WITHIN = 240.0
"""Seconds. A node that has started continues as new after two minutes at most, and nothing does so earlier."""
QUIET = {"TenonAbsent", "TenonHasNoLeader", "TenonStandsBy", "TenonWorkflowTasksFail", "TenonWorkerVersionGetsNoWork"}
"""Alerts that must not be set off by a worker that works."""

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Prometheus: apt-get install prometheus")


@pytest.fixture(scope="module")
def observed(worker: WorkerProcess, sandbox: Sandbox) -> Iterator[WorkerProcess]:
    """A worker in place of the usual one, whose counters begin at zero."""
    own = WorkerProcess(
        sandbox,
        "observed-worker",
        replica=REPLICA,
        INTERRUPTION_QUEUE=sandbox.cluster_name,
        COST_INTERVAL="1m",  # or the lower bound would come after a quarter of an hour
    )
    with in_place_of(worker, own):
        yield own


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(
    observed: WorkerProcess,
    sandbox: Sandbox,
    new_pool: NewPool,
    client: Client,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[PrometheusServer]:
    """Prometheus after the story, while nodes run and a pod still waits."""
    target = f"127.0.0.1:{sandbox.worker_env(REPLICA)['METRICS_PORT']}"
    assert observed.running
    with prometheus(tmp_path_factory.mktemp("prometheus"), [target], ALERTS) as running:
        async with (
            new_pool(requirements=SMALL, consolidate_after="Never", capacity_types=SPOT) as spot,
            new_pool(requirements=ON_DEMAND, consolidate_after="Never") as moving,
            new_pool(requirements=ONLY_UNUSUAL, capacity_types=SPOT) as short,
        ):
            await spot.kube.patch(NODEPOOLS, spot.name, {"spec": {"limits": {"cpu": "1000"}}})
            await moving.deploy(1, app="big", cpu="14")
            await moving.running(1)  # a claim without an instance has no room for more than its own pods
            await moving.deploy(1, app="small", cpu="500m")
            await spot.deploy(1)
            await spot.pod("huge", cpu="500")
            await interrupt(spot, sandbox)
            await moving.running(2)
            (replaced,) = await moving.settled(1)
            await moving.scale(0, app="big")
            await moving.kube.patch(NODEPOOLS, moving.name, UNDERUTILIZED)
            await moving.gone(replaced["metadata"]["name"])
            await moving.running(1)
            await sweep(client, sandbox.cluster_name)
            await refuse(short, sandbox, observed)
            await hold_back(spot)
            yield running


async def interrupt(pool: Pool, sandbox: Sandbox) -> None:
    """Interrupt the pool's spot instance, and wait for the replacement."""
    await pool.running(1, app="web", within=2 * WITHIN)  # an earlier test's refusals of spot last as long as WITHIN
    (claim,) = await pool.settled(1)
    (instance,) = pool.instances(claim["metadata"]["name"])
    sandbox.ec2().interrupt_instance(instance["id"], notice_seconds=120)
    await pool.gone(claim["metadata"]["name"])
    await pool.running(1, app="web")


async def refuse(pool: Pool, sandbox: Sandbox, observed: WorkerProcess) -> None:
    """Let a pod wait for a spot instance while EC2 has none."""
    catalogue.apply(sandbox, "no-capacity", type=UNUSUAL, capacity_type="spot")

    async def refused() -> bool:
        return await asyncio.to_thread(observed.metric, "karpenter_cloudprovider_instance_launch_failures_total") > 0

    try:
        await pool.pod("late")
        await until(refused)
    finally:
        catalogue.clear(sandbox, "no-capacity")


async def hold_back(pool: Pool) -> None:
    """Delete the node of a protected pod, so that it leaves for as long as anybody looks."""
    await pool.protect("web")
    (claim,) = await pool.settled(1)
    await pool.kube.delete(NODECLAIMS, claim["metadata"]["name"])


def names_in(expression: str) -> set[str]:
    """The names of the series that an expression selects."""
    parts: list[Any] = []
    promql.walk(promql.parse(expression), parts.append)
    return {str(part.name) for part in parts if isinstance(part, promql.VectorSelector)}


@pytest.mark.parametrize("name", QUERIES)
async def test_a_query_of_a_dashboard_has_series(server: PrometheusServer, name: str) -> None:
    """At some moment of the story, as Grafana shows it. Grafana replaces its variable by an interval."""
    expression = QUERIES[name].replace("$__rate_interval", "10m")
    if OF_YESTERDAY in expression or names_in(expression) & set(NOTHING_HAPPENED):
        await asyncio.to_thread(server.over_time, expression)  # Prometheus accepts it
        return

    async def has_series() -> bool:
        return bool(await asyncio.to_thread(server.over_time, expression))

    await until(has_series, within=SERIES_WITHIN)


async def test_each_alert_is_evaluated_and_only_those_fire_that_should(server: PrometheusServer) -> None:
    rules: dict[str, dict[str, Any]] = {}
    expected = dict.fromkeys(WAITING, True) | dict.fromkeys(QUIET, False)

    async def evaluated() -> bool:
        rules.update({rule["name"]: rule for rule in await asyncio.to_thread(server.rules)})
        return expected.items() <= {name: rule["state"] != "inactive" for name, rule in rules.items()}.items()

    with contextlib.suppress(TimeoutError):
        await until(evaluated)  # one late scrape makes an alert pending for a moment
    assert {name: rules[name]["state"] != "inactive" for name in expected} == expected
    assert set(rules) == set(RULES)
    assert {name: rule.get("lastError", "") for name, rule in rules.items() if rule["health"] != "ok"} == {}


@pytest.mark.parametrize("name", RULES)
async def test_the_series_of_an_alert_are_there(server: PrometheusServer, name: str) -> None:
    """An alert on a series that no worker has would never fire, and nobody would notice."""
    names = names_in(RULES[name]["expr"]) - set(NOTHING_HAPPENED)

    async def scraped() -> bool:
        return names <= await asyncio.to_thread(server.names)

    await until(scraped)


async def test_what_did_not_happen_is_something_that_is_asked_for() -> None:
    selected_names = {name for query in QUERIES.values() for name in names_in(query.replace("$__rate_interval", "10m"))}
    selected_names |= {name for rule in RULES.values() for name in names_in(rule["expr"])}
    assert set(NOTHING_HAPPENED) <= selected_names


async def test_series_of_temporal_do_not_change_with_the_leader(
    server: PrometheusServer, observed: WorkerProcess, sandbox: Sandbox
) -> None:
    """Each leader serves a task queue of its own, whose name has a random part."""
    prefix = f"tenon-{sandbox.cluster_name}"
    lanes = "cordoning", "draining", "ending", "plan", "plan-leader", "teardown"
    queues = {prefix, *(f"{prefix}-{lane}" for lane in lanes)}
    scraped = server.get("label/task_queue/values")
    assert set(scraped) == queues
