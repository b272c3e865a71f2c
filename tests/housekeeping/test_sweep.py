"""The sweep on real parts: EC2 of the sandbox, a real Temporal server, Kubernetes in memory."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleOverlapPolicy
from temporalio.testing import WorkflowEnvironment

from activities.ec2.provider import Ec2Provider
from activities.housekeeping.node_workflows import NodeWorkflows
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODES
from sandbox.ec2.authorization.identities import worker_key
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.housekeeping.messages import Figures, HousekeepingResult
from tenon.lifecycle.messages.launch import LaunchGroup
from tests.ec2.conftest import Administrator, clients_of
from tests.ec2.samples import node_claim
from tests.housekeeping.lost import Cluster, serving
from tests.lifecycle_k8s.fake_kube import stamp
from tests.workflows.waiting import until
from worker.runtime.housekeeping_schedule import ensure_schedule, reconcile_schedule, sweep_now
from worker.runtime.payload_codec import EncryptionCodec
from worker.runtime.temporal_plugin import TenonPlugin
from workflows import names
from workflows.housekeeping import schedule_id

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

LATER = timedelta(hours=2)
AT_FIRST = timedelta(seconds=10)
"""Within every grace; the shortest is half a minute."""


@pytest_asyncio.fixture
async def lost(
    temporal: WorkflowEnvironment,
    cluster: str,
    provider: Ec2Provider,
    server: Server,
    admin: Administrator,
    ready_class: EC2NodeClass,
) -> AsyncIterator[Cluster]:
    worker = clients_of(worker_key(cluster), server)
    async with serving(cluster, temporal.client, provider, worker, admin, ready_class) as made:
        yield made


def ended(kind: str) -> float:
    return REGISTRY.get_sample_value("tenon_housekeeping_ended_total", {"kind": kind}) or 0.0


def some(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]


async def test_a_hundred_orphans_end_and_the_neighbour_is_untouched(lost: Cluster) -> None:
    """Of every kind, each after its grace; another cluster in the account and what lives here keep everything."""
    live = some("live", 4)
    for name in live:
        await lost.put_life(name)
    neighbours = some("neighbour", 5)
    for name in neighbours:
        lost.buy(name, cluster="neighbour")
    lost.template("karpenter.k8s.aws/neighbour", "gone", cluster="neighbour")

    began = lost.now()
    instances = some("instance", 30)
    for name in instances:
        provider_id = lost.buy(name)
        if name.endswith("0"):
            lost.put_node(name, provider_id)
    gone = some("gone", 15)
    for number, name in enumerate(gone):
        missing = f"aws:///us-west-2a/i-0{lost.name[1:]}{number:04d}"
        lost.put_claim(name, missing, *(["Registered"] if number % 3 else []))
        if number % 3 == 2:
            lost.put_node(name, missing, ready=False)
        await lost.start(name)
    idle = some("idle", 15)
    for name in idle:
        provider_id = lost.buy(name, Name=f"node-{name}")
        lost.put_claim(name, provider_id, "Registered")
        lost.put_node(name, provider_id)
    driven = some("driven", 15)
    for name in driven:
        await lost.start(name)
    nodes = some("left", 10)
    for number, name in enumerate(nodes):
        lost.put_node(name, f"aws:///us-west-2a/i-1{lost.name[1:]}{number:04d}", ready=False)
    templates = [f"karpenter.k8s.aws/{lost.name}-{number}" for number in range(10)]
    for name in templates:
        lost.template(name, "deleted-class")
    unnamed = some("unnamed", 5)
    for name in unnamed:
        provider_id = lost.buy(name)
        lost.put_claim(name, provider_id, "Registered")
        lost.put_node(name, provider_id)
        await lost.start(name)
    await lost.until_open({*live, *gone, *driven, *unnamed})

    lost.late = began + AT_FIRST - lost.now()  # however long it took to make all this
    early = await lost.sweep()
    assert early.unread == {}
    assert set(early.figures) == {"untagged_instance"}, "nothing is past its grace yet"
    assert lost.pauses == [1.0] * 5, "one tag a second"
    before = lost.alive("neighbour"), lost.templates() - set(templates)
    counted = ended("instance_without_claim")

    lost.late = LATER
    result = await lost.sweep()
    assert result.faults == []
    own = {template.name for template in lost.request.templates}  # nothing was launched from them for an hour
    unused = len(templates) + len(own)
    assert {kind: (row.found, row.ended) for kind, row in result.figures.items()} == {
        "instance_without_claim": (30, 30),
        "claim_without_instance": (15, 15),
        "claim_without_workflow": (15, 15),
        "workflow_without_claim": (15, 15),
        "node_without_claim": (10, 10),
        "unused_launch_template": (unused, unused),
    }
    assert len(result.model_dump_json()) < 10_000
    assert ended("instance_without_claim") - counted == 30
    success = REGISTRY.get_sample_value("tenon_housekeeping_last_success_timestamp_seconds")
    assert success is not None
    assert success >= (lost.now() - timedelta(minutes=10)).timestamp()
    assert lost.alive() == {*live, *idle, *unnamed}
    assert lost.names(NODES) == {f"node-{name}" for name in [*live, *idle, *unnamed, *gone[2::3]]}
    await lost.until_open({*live, *idle, *unnamed})
    begun = await lost.client.get_workflow_handle(names.nodeclaim_id(lost.name, "idle-0")).describe()
    assert await begun.memo_value(names.UID_MEMO) == "uid-idle-0"
    for name, reason in [*((name, "instance gone") for name in gone), *((name, "gone") for name in driven)]:
        handle = lost.client.get_workflow_handle(names.nodeclaim_id(lost.name, name))
        assert await handle.result() == reason
    tags = {tags["karpenter.sh/nodeclaim"]: tags["Name"] for _, tags in lost.instances().values()}
    assert {tags[name] for name in unnamed} == {f"node-{name}" for name in unnamed}
    assert (lost.alive("neighbour"), lost.templates() & before[1]) == (
        set(neighbours),
        before[1] - own,
    )
    reasons = lost.recorder.reasons()
    assert {reason: reasons.count(reason) for reason in reasons} == {
        "InstanceWithoutNodeClaim": 30,
        "NodeClaimWithoutInstance": 15,
        "NodeClaimWithoutWorkflow": 15,
        "WorkflowWithoutNodeClaim": 15,
        "NodeWithoutNodeClaim": 10,
        "LaunchTemplateUnused": unused,
    }

    for name in gone:  # what their real workflows do as they end
        lost.kube.objects.pop(("nodeclaims", "", name))
        lost.kube.objects.pop(("nodes", "", f"node-{name}"), None)
    assert (await lost.sweep()).figures == {}


async def test_a_list_that_misses_a_claim_ends_nothing(lost: Cluster) -> None:
    """The claim is asked for by name before anything is ended on the word of its absence."""
    await lost.put_life("live-0")
    await lost.until_open({"live-0"})
    lost.kube.unlisted.add("live-0")
    lost.late = LATER
    assert (await lost.sweep(left_since={id_: lost.now() - LATER for id_ in lost.instances()})).figures.keys() <= {
        "unused_launch_template"
    }
    assert lost.alive() == {"live-0"}
    assert await lost.open() == {"live-0"}
    assert lost.names(NODES) == {"node-live-0"}


async def test_a_list_that_misses_an_open_workflow_ends_nothing_under_it(
    lost: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance that was left to its workflow a minute ago stays with it, though the search does not show it now."""
    instance = lost.buy("orphan-0").rsplit("/", 1)[-1]
    await lost.start("orphan-0")
    await lost.until_open({"orphan-0"})

    async def none(_: NodeWorkflows) -> tuple[()]:
        return ()

    monkeypatch.setattr(NodeWorkflows, "opened", none)
    lost.late = LATER
    await lost.sweep(left_since={instance: lost.now() - timedelta(minutes=1)})
    assert lost.alive() == {"orphan-0"}
    await lost.sweep(left_since={instance: lost.now() - timedelta(minutes=31)})
    assert lost.alive() == set()


async def test_an_error_is_never_taken_for_none(lost: Cluster) -> None:
    """Neither of the API server nor of EC2: the sweep says what it could not read and ends nothing by it."""
    await lost.put_life("live-0")
    lost.buy("orphan-0")
    lost.late = LATER
    lost.kube.broken["nodeclaims"] = ApiError(500, "InternalError", "etcd is away")
    result = await lost.sweep()
    assert (result.figures, list(result.unread)) == ({}, ["NodeClaims"])
    lost.kube.broken = {"nodes": ApiError(410, "Expired", "the continue token is too old")}
    result = await lost.sweep()
    assert result.figures["instance_without_claim"] == Figures(found=1, ended=1), "what needs no Node goes on"
    assert lost.alive() == {"live-0"}


async def test_ec2_away(lost: Cluster, server: Server) -> None:
    """Instances that cannot be listed are not gone."""
    from sandbox.ec2.faults import Fault

    await lost.put_life("live-0")
    await lost.start("driven-0")
    await lost.until_open({"live-0", "driven-0"})
    lost.late = LATER
    server.world.faults.add(Fault(action="DescribeInstances", code="InternalError", status=500, count=None))
    result = await lost.sweep()
    assert list(result.unread) == ["instances"]
    assert result.figures["workflow_without_claim"] == Figures(found=1, ended=1), "Temporal needs no EC2"
    assert "claim_without_instance" not in result.figures


async def test_one_fault_stops_nothing_else(lost: Cluster, server: Server) -> None:
    """What fails is told and counted; the next sweep comes back to it."""
    from sandbox.ec2.faults import Fault

    for name in some("orphan", 3):
        lost.buy(name)
    lost.late = LATER
    server.world.faults.add(Fault(action="TerminateInstances", code="UnauthorizedOperation", status=403, message="no"))
    result = await lost.sweep()
    assert result.figures["instance_without_claim"] == Figures(found=3, ended=2, failed=1)
    assert len(result.faults) == 1
    assert "UnauthorizedOperation" in result.faults[0]
    assert len(result.failed) == 1, "it has its turn after those that did not fail"
    assert (await lost.sweep()).figures["instance_without_claim"] == Figures(found=1, ended=1)
    assert lost.alive() == set()


async def test_a_sweep_is_bounded(lost: Cluster) -> None:
    """The oldest first, the rest next time."""
    for name in some("orphan", 3):
        lost.buy(name)
    lost.template(f"karpenter.k8s.aws/{lost.name}", "gone")
    lost.late = LATER
    first = await lost.sweep(actions=2)
    assert sum(row.ended for row in first.figures.values()) == 2
    rest = sum(row.put_off for row in first.figures.values())
    assert rest >= 2
    await lost.sweep(actions=rest)
    assert lost.alive() == set()
    assert (await lost.sweep()).figures == {}


async def test_ctl15_a_ready_node_outlives_what_ec2_says(lost: Cluster) -> None:
    """CTL-15: a Node that reports itself has a machine, whatever the list says."""
    missing = "aws:///us-west-2a/i-0123456789abcdef0"
    lost.put_claim("kept", missing, "Registered")
    lost.put_node("kept", missing)
    await lost.start("kept")
    await lost.until_open({"kept"})
    lost.late = LATER
    assert "claim_without_instance" not in (await lost.sweep()).figures
    assert await lost.open() == {"kept"}


async def test_a_workflow_that_was_missing_begins_with_the_revision_of_the_settings(lost: Cluster) -> None:
    """As those that the leader starts: else a rollback would find runs that its code cannot replay."""
    provider_id = lost.buy("idle", Name="node-idle")
    lost.put_claim("idle", provider_id, "Registered")
    lost.put_node("idle", provider_id)
    lost.late = LATER
    await lost.sweep()
    history = await lost.client.get_workflow_handle(names.nodeclaim_id(lost.name, "idle")).fetch_history()
    (given,) = history.events[0].workflow_execution_started_event_attributes.input.payloads
    assert json.loads(given.data)["revision"] == lost.revision


async def test_somebody_elses_finalizer_is_told_and_begins_no_workflow(lost: Cluster) -> None:
    """A claim that only others hold: an event that names the finalizer, and no life without end."""
    lost.put_claim("held", "", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/audit"])
    lost.late = LATER
    result = await lost.sweep()
    assert result.figures["foreign_finalizer"] == Figures(found=1)
    assert await lost.open() == set()
    held = {"finalizer": "example.com/audit"}
    assert REGISTRY.get_sample_value("tenon_nodeclaims_foreign_finalizers", held) == 1
    event = next(event for event in lost.recorder.events if event[2] == "HeldByFinalizer")
    assert event[:2] == ("NodeClaim", "held")
    assert "example.com/audit" in event[3]
    lost.kube.objects.clear()
    await lost.sweep()
    assert REGISTRY.get_sample_value("tenon_nodeclaims_foreign_finalizers", held) == 0


async def test_nodes_that_wait_for_somebody_are_counted(lost: Cluster) -> None:
    """An alert needs a number: how many NodeClaims are blocked, until they are not."""
    for name in ("stuck-0", "stuck-1", "fine"):
        lost.put_claim(name, lost.buy(name, Name=f"node-{name}"), "Registered")
        lost.put_node(name, f"aws:///us-west-2a/{name}")
    handles = [await lost.start(name, blocked=name.startswith("stuck")) for name in ("stuck-0", "stuck-1", "fine")]
    await lost.until_open({"stuck-0", "stuck-1", "fine"})
    await lost.sweep()
    assert REGISTRY.get_sample_value("tenon_nodeclaims_blocked") == 2
    for handle in handles:
        await handle.terminate()
    await lost.until_open(set())
    await lost.sweep()
    assert REGISTRY.get_sample_value("tenon_nodeclaims_blocked") == 0


async def test_a_node_that_is_being_deleted_does_not_hang(lost: Cluster) -> None:
    """ACT-04: Kubernetes collects the Node of a vanished claim; nobody but the sweep takes the finalizer off."""
    provider_id = lost.buy("orphan-0")
    lost.put_node("orphan-0", provider_id)
    await lost.kube.delete(NODES, "node-orphan-0")
    assert lost.names(NODES) == {"node-orphan-0"}
    lost.late = LATER
    await lost.sweep()
    assert (lost.names(NODES), lost.alive()) == (set(), set())


async def test_the_schedule_is_made_once_and_mended(lost: Cluster, temporal: WorkflowEnvironment) -> None:
    """Made when missing, changed when the interval is another, else left alone, an operator's pause included."""
    client = temporal.client
    assert await ensure_schedule(client, lost.name, timedelta(minutes=10))
    assert not await ensure_schedule(client, lost.name, timedelta(minutes=10))
    handle = client.get_schedule_handle(schedule_id(lost.name))
    await handle.pause(note="maintenance")
    assert await ensure_schedule(client, lost.name, timedelta(minutes=5))
    schedule = (await handle.describe()).schedule
    assert [each.every for each in schedule.spec.intervals] == [timedelta(minutes=5)]
    assert schedule.policy.overlap is ScheduleOverlapPolicy.SKIP
    assert schedule.policy.catchup_window == timedelta(minutes=1)
    assert schedule.spec.jitter
    assert schedule.state.paused
    await sweep_now(client, lost.name)
    assert (await handle.describe()).info.num_actions == 0, "what an operator paused stays paused"
    await handle.delete()


async def test_an_encrypted_schedule_changes_with_the_key_and_not_otherwise(
    lost: Cluster, temporal: WorkflowEnvironment, tmp_path: Path
) -> None:
    """Equal inputs are different bytes once they are encrypted. A key that is removed later must not be in use."""
    file, every = tmp_path / "keys.yaml", timedelta(minutes=10)

    def keys(*names: str) -> None:
        secrets = {name: base64.b64encode(name.encode().ljust(32, b"-")).decode() for name in names}
        file.write_text(json.dumps({"keys": [{"name": name, "secret": secrets[name]} for name in names]}))

    keys("old")
    address = temporal.client.service_client.config.target_host
    client = await Client.connect(address, plugins=[TenonPlugin(codec=EncryptionCodec(file))])
    assert await ensure_schedule(client, lost.name, every)
    assert not await ensure_schedule(client, lost.name, every)
    keys("new", "old")
    assert await ensure_schedule(client, lost.name, every)
    keys("new")
    assert not await ensure_schedule(client, lost.name, every)
    keys("other")
    assert await ensure_schedule(client, lost.name, every), "the key is gone: what can be read replaces it"
    await client.get_schedule_handle(schedule_id(lost.name)).delete()


async def scheduled_sweep(client: Client, lost: Cluster, number: int) -> HousekeepingResult:
    """Have the Schedule start sweep ``number``, counted from 1, and return its report."""
    handle = client.get_schedule_handle(schedule_id(lost.name))
    await sweep_now(client, lost.name)

    async def done() -> bool:
        description = await handle.describe()
        return description.info.num_actions == number and not description.info.running_actions

    await until(done)
    last = (await handle.describe()).info.recent_actions[-1].action
    assert isinstance(last, ScheduleActionExecutionStartWorkflow)
    run = client.get_workflow_handle(last.workflow_id, result_type=HousekeepingResult)
    report: HousekeepingResult = await run.result()
    return report


async def test_the_next_sweep_tries_last_what_failed_before(
    lost: Cluster, temporal: WorkflowEnvironment, server: Server, ready_class: EC2NodeClass
) -> None:
    """The Schedule hands on what failed, so that leaks which always fail keep no newer one from its turn."""
    from sandbox.ec2.faults import Fault

    client = temporal.client
    await ensure_schedule(client, lost.name, timedelta(days=1))
    stuck = lost.buy("stuck").rsplit("/", 1)[-1]
    lost.late = LATER
    server.world.faults.add(Fault(action="TerminateInstances", code="UnauthorizedOperation", status=403, message="no"))
    first = await scheduled_sweep(client, lost, 1)
    assert first.figures["instance_without_claim"] == Figures(found=1, failed=1)
    lost.request = lost.buyer.prepare_launch(node_claim(name="seed"), ready_class, 2)  # the sweep ended its template
    leak = lost.buy("leak").rsplit("/", 1)[-1]
    server.world.calls.clear()
    second = await scheduled_sweep(client, lost, 2)
    assert second.figures["instance_without_claim"] == Figures(found=2, ended=2)
    assert ended_in_order(server) == [leak, stuck]
    await client.get_schedule_handle(schedule_id(lost.name)).delete()


def ended_in_order(server: Server) -> list[str]:
    """The instances that were terminated, in the order of the calls."""
    calls = server.world.calls.listing("TerminateInstances")
    return [value for call in calls for key, value in call["parameters"].items() if key.startswith("InstanceId")]


async def test_a_deaf_workflow_loses_its_instance_after_half_an_hour(
    lost: Cluster, temporal: WorkflowEnvironment
) -> None:
    """The Schedule hands on from sweep to sweep since when an instance is left to its workflow."""
    lost.buy("deaf-0")
    await lost.start("deaf-0", deaf=True)
    await lost.until_open({"deaf-0"})
    client = temporal.client
    await ensure_schedule(client, lost.name, timedelta(days=1))
    handle = client.get_schedule_handle(schedule_id(lost.name))

    lost.late = timedelta(minutes=5)
    first = await scheduled_sweep(client, lost, 1)
    assert len(first.left_since) == 1
    assert first.figures["workflow_without_claim"].ended == 1
    lost.late = timedelta(minutes=20)
    assert (await scheduled_sweep(client, lost, 2)).left_since == first.left_since
    assert lost.alive() == {"deaf-0"}
    lost.late = timedelta(minutes=36)
    assert (await scheduled_sweep(client, lost, 3)).figures["instance_without_claim"] == Figures(found=1, ended=1)
    assert lost.alive() == set()
    await handle.delete()
    await client.get_workflow_handle(names.nodeclaim_id(lost.name, "deaf-0")).terminate()


async def test_a_leader_sweeps_once_as_it_starts(lost: Cluster, temporal: WorkflowEnvironment) -> None:
    """After an outage nothing waits for the next interval."""
    lost.buy("orphan-0")
    lost.late = LATER
    keeping = asyncio.create_task(reconcile_schedule(temporal.client, lost.name, timedelta(days=1)))

    async def clean() -> bool:
        return not lost.alive()

    await until(clean)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await temporal.client.get_schedule_handle(schedule_id(lost.name)).delete()


async def test_an_instance_without_the_tag_of_a_claim(lost: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """A NodePool's tag is enough to be garbage; the one that a claim names is tagged instead (AWS-122)."""
    caplog.set_level("INFO")
    kept = lost.buy("live-0", Name="node-live-0")
    lost.put_claim("live-0", kept, "Registered")
    lost.put_node("live-0", kept)
    await lost.start("live-0")
    bare = lost.buy("orphan-0")
    for provider_id in (kept, bare):
        lost.ec2.ec2.delete_tags(Resources=[provider_id.rsplit("/", 1)[-1]], Tags=[{"Key": "karpenter.sh/nodeclaim"}])
    await lost.until_open({"live-0"})
    lost.late = LATER
    result = await lost.sweep()
    assert result.figures["instance_without_claim"] == Figures(found=1, ended=1)
    assert result.figures["untagged_instance"] == Figures(found=1, ended=1)
    done = {record.getMessage(): vars(record)["kind"] for record in caplog.records if "kind" in vars(record)}
    assert done == {
        "The sweep terminated an orphaned object": "instance_without_claim",
        "The sweep tagged an instance": "untagged_instance",
    }
    claim = lost.kube.objects[("nodeclaims", "", "live-0")]
    assert claim["metadata"]["annotations"]["karpenter.k8s.aws/tagged"] == "true"
    assert lost.alive() == {"live-0"}


async def test_the_surplus_of_a_launch_group_is_ended_once_no_member_can_claim_it(lost: Cluster) -> None:
    """One member was deleted before it launched: its group bought an instance for it all the same."""
    bought = []
    for place in range(3):
        group = LaunchGroup(id="7-0", ordinal=place, size=3)
        tags = {**lost.request.tags, labels.TAG_NODECLAIM: f"member-{place}", labels.TAG_CLUSTER: lost.name}
        result = lost.buyer.launch(lost.request.model_copy(update={"tags": tags, "group": group}))
        assert result.instance is not None
        bought.append(result.instance)
        launched = result.instance.provider_id if place < 2 else ""
        lost.put_claim(f"member-{place}", launched, annotations={labels.LAUNCH_GROUP: f"7-0/{place}/3"})
        await lost.start(f"member-{place}")
    await lost.until_open({f"member-{place}" for place in range(3)})

    def running() -> set[str]:
        return {name for name, (state, _) in lost.instances().items() if state in ("pending", "running")}

    assert {each.id for each in bought} <= running()
    lost.late = LATER
    await lost.sweep()
    assert {each.id for each in bought} <= running(), "the third member may be about to get it"
    del lost.kube.objects["nodeclaims", "", "member-2"]
    await lost.sweep()
    assert running() & {each.id for each in bought} == {each.id for each in bought[:2]}


async def test_dis74_what_an_instance_is_in_the_network_is_corrected_on_its_claim(lost: Cluster) -> None:
    """Nodes of older releases and of Karpenter do not say it, and somebody may change the groups of an instance."""
    subnet, groups = "tenon.sh/subnet-id", "tenon.sh/security-group-ids"
    provider_ids = {name: lost.buy(name, Name=f"node-{name}") for name in ("older", "edited", "leaving")}
    lost.put_claim("older", provider_ids["older"], "Registered")
    lost.put_claim("edited", provider_ids["edited"], "Registered", annotations={groups: "sg-0", "kept": "x"})
    lost.put_claim("leaving", provider_ids["leaving"], "Registered", deletionTimestamp=stamp(lost.now()))
    await lost.sweep()

    def annotations(name: str) -> dict[str, str]:
        return dict(lost.kube.objects["nodeclaims", "", name]["metadata"].get("annotations") or {})

    raw = lost.ec2.ec2.describe_instances(InstanceIds=[provider_ids["older"].rsplit("/", 1)[-1]])
    instance = raw["Reservations"][0]["Instances"][0]
    expected = {subnet: instance["SubnetId"], groups: instance["SecurityGroups"][0]["GroupId"]}
    assert annotations("older") == expected
    assert annotations("edited") == {**expected, "kept": "x"}
    assert annotations("leaving") == {}
    patches = [call for call in lost.kube.calls if call[0] == "patch"]
    await lost.sweep()
    assert [call for call in lost.kube.calls if call[0] == "patch"] == patches, "what is right is not written again"
