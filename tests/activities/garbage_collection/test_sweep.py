"""What a sweep ends, on real parts: EC2 of the sandbox, a real Temporal server, Kubernetes in memory."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.resources import NODES
from tenon.apis import labels
from tenon.messages.garbage_collection import Figures
from tenon.messages.launch import LaunchGroup
from tests.activities.garbage_collection.lost import LATER, Cluster, some
from tests.workflows.waiting import until
from workflows import names

pytestmark = pytest.mark.integration

AT_FIRST = timedelta(seconds=10)
"""Within every grace; the shortest is half a minute."""


def held(kind: str) -> float | None:
    return REGISTRY.get_sample_value("tenon_garbage_collection_held_back", {"kind": kind})


def ended(kind: str) -> float:
    return REGISTRY.get_sample_value("tenon_garbage_collection_ended_total", {"kind": kind}) or 0.0


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
    removal = some("gone", 15)
    for number, name in enumerate(removal):
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
    await lost.until_open({*live, *removal, *driven, *unnamed})

    lost.late = began + AT_FIRST - lost.now()  # however long it took to make all this
    early = await lost.sweep()
    assert early.unread == {}
    assert set(early.figures) == {"untagged_instance"}, "nothing is past its grace yet"
    assert lost.pauses == [1.0] * 5, "one tag a second"
    before = lost.alive("neighbour"), lost.templates() - set(templates)
    counted = ended("instance_without_claim")

    lost.late = LATER
    many = len(instances) + len(removal) + len(driven) + len(nodes)
    result = await lost.sweep(confirmed=many)  # without that, so many wait for a person
    assert (result.faults, result.held_back) == ([], [])
    own = {template.name for template in lost.request.templates}  # nothing was launched from them for an hour
    unused = len(templates) + len(own)
    assert {kind: (row.findings, row.ended) for kind, row in result.figures.items()} == {
        "instance_without_claim": (30, 30),
        "claim_without_instance": (15, 15),
        "claim_without_workflow": (15, 15),
        "workflow_without_claim": (15, 15),
        "node_without_claim": (10, 10),
        "unused_launch_template": (unused, unused),
    }
    assert len(result.model_dump_json()) < 10_000
    assert ended("instance_without_claim") - counted == 30
    success = REGISTRY.get_sample_value("tenon_garbage_collection_last_success_timestamp_seconds")
    assert success is not None
    assert success >= (lost.now() - timedelta(minutes=10)).timestamp()
    assert lost.alive() == {*live, *idle, *unnamed}
    assert lost.names(NODES) == {f"node-{name}" for name in [*live, *idle, *unnamed, *removal[2::3]]}
    await lost.until_open({*live, *idle, *unnamed})
    begun = await lost.client.get_workflow_handle(names.nodeclaim_id(lost.name, "idle-0")).describe()
    assert await begun.memo_value(names.UID_MEMO) == "uid-idle-0"
    for name, reason in [*((name, "instance gone") for name in removal), *((name, "gone") for name in driven)]:
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

    for name in removal:  # what their real workflows do as they end
        lost.kube.objects.pop(("nodeclaims", "", name))
        lost.kube.objects.pop(("nodes", "", f"node-{name}"), None)
    assert (await lost.sweep()).figures == {}


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


async def test_many_losses_at_once_wait_until_a_person_confirms_them(
    lost: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Of every kind that ends nodes. The node whose instance EC2 calls terminated, and the template, do not wait."""
    for name in some("orphan", 6):
        lost.put_node(name, lost.buy(name))
    removal = some("gone", 6)
    for number, name in enumerate(removal):
        lost.put_claim(name, f"aws:///us-west-2a/i-0{lost.name[1:]}{number:04d}")
        await lost.start(name)
    terminated = await lost.put_life("ended")
    lost.put_node("ended", terminated, ready=False)
    instance_id = terminated.rsplit("/", 1)[-1]
    lost.provider.terminate(instance_id)

    async def has_ended() -> bool:
        return lost.instances()[instance_id][0] == "terminated"

    await until(has_ended)
    driven = some("driven", 6)
    for name in driven:
        await lost.start(name)
    remainder = some("left", 6)
    for number, name in enumerate(remainder):
        lost.put_node(name, f"aws:///us-west-2a/i-1{lost.name[1:]}{number:04d}", ready=False)
    lost.template(f"karpenter.k8s.aws/{lost.name}", "gone")
    await lost.until_open({*removal, *driven, "ended"})
    nodes = lost.names(NODES)

    lost.late = LATER
    waiting = await lost.sweep()
    kinds = ("instance_without_claim", "claim_without_instance", "workflow_without_claim", "node_without_claim")
    assert {kind: waiting.figures[kind].held_back for kind in kinds} == dict.fromkeys(kinds, 6)
    assert len(waiting.held_back) == len(kinds)
    assert lost.alive() == {f"orphan-{number}" for number in range(6)}
    assert lost.names(NODES) == nodes
    await lost.until_open({*removal, *driven})
    assert waiting.figures["unused_launch_template"].ended > 0
    assert {kind: held(kind) for kind in kinds} == dict.fromkeys(kinds, 6)
    events = [(about, text) for about, _, reason, text in lost.recorder.events if reason == "GarbageCollectionHeldBack"]
    assert {about for about, _ in events} == {"NodePool", "NodeClaim", "Node"}
    assert any("6 of 6 instances have no NodeClaim" in text for _, text in events)
    logged = [vars(record) for record in caplog.records if record.levelname == "ERROR"]
    assert {record["kind"] for record in logged} == set(kinds)

    lost.kube.objects.pop(("nodeclaims", "", "ended"))  # what its real workflow does as it ends
    many = sum(row.held_back for row in waiting.figures.values())
    unseen = await lost.sweep(confirmed=many - 1)
    assert sum(row.held_back for row in unseen.figures.values()) == many, "a person has not seen them all"
    done = await lost.sweep(confirmed=many)
    assert {kind: done.figures[kind].ended for kind in kinds} == dict.fromkeys(kinds, 6)
    assert lost.alive() == set()
    await lost.until_open(set())
    assert {kind: held(kind) for kind in kinds} == dict.fromkeys(kinds, 0)


async def test_a_sweep_with_another_account_ends_no_node(lost: Cluster) -> None:
    """EC2 knows none of the instances there, and two Nodes happen to be not Ready."""
    fleet = some("node", 8)
    for number, name in enumerate(fleet):
        elsewhere = f"aws:///us-west-2a/i-2{lost.name[1:]}{number:04d}"
        lost.put_claim(name, elsewhere, "Registered")
        lost.put_node(name, elsewhere, ready=number >= 2)
        await lost.start(name)
    await lost.until_open(set(fleet))
    lost.late = LATER
    result = await lost.sweep()
    assert result.figures["claim_without_instance"] == Figures(findings=2, held_back=2)
    assert "8 of 8 NodeClaims" in result.held_back[0]
    assert await lost.open() == set(fleet)


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


async def test_a_node_that_is_being_deleted_does_not_hang(lost: Cluster) -> None:
    """ACT-04: Kubernetes collects the Node of a vanished claim; nobody but the sweep takes the finalizer off."""
    provider_id = lost.buy("orphan-0")
    lost.put_node("orphan-0", provider_id)
    await lost.kube.delete(NODES, "node-orphan-0")
    assert lost.names(NODES) == {"node-orphan-0"}
    lost.late = LATER
    await lost.sweep()
    assert (lost.names(NODES), lost.alive()) == (set(), set())


async def test_an_instance_without_the_tag_of_a_claim(lost: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """A NodePool's tag is enough to be garbage; the one that a claim names is tagged instead (AWS-122)."""
    caplog.set_level("INFO")
    survivors = lost.buy("live-0", Name="node-live-0")
    lost.put_claim("live-0", survivors, "Registered")
    lost.put_node("live-0", survivors)
    await lost.start("live-0")
    bare = lost.buy("orphan-0")
    for provider_id in (survivors, bare):
        lost.ec2.ec2.delete_tags(Resources=[provider_id.rsplit("/", 1)[-1]], Tags=[{"Key": "karpenter.sh/nodeclaim"}])
    await lost.until_open({"live-0"})
    lost.late = LATER
    result = await lost.sweep()
    assert result.figures["instance_without_claim"] == Figures(findings=1, ended=1)
    assert result.figures["untagged_instance"] == Figures(findings=1, ended=1)
    done = {record.getMessage(): vars(record)["kind"] for record in caplog.records if "kind" in vars(record)}
    assert done == {
        "The sweep terminated an instance without a NodeClaim": "instance_without_claim",
        "The sweep tagged an instance": "untagged_instance",
        "The sweep deleted an unused launch template": "unused_launch_template",
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

    assert {item.id for item in bought} <= running()
    lost.late = LATER
    await lost.sweep()
    assert {item.id for item in bought} <= running(), "the third member may be about to get it"
    del lost.kube.objects["nodeclaims", "", "member-2"]
    await lost.sweep()
    assert running() & {item.id for item in bought} == {item.id for item in bought[:2]}
