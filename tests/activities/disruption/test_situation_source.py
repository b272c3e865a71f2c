"""What a pass and a validation know of the cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from activities.disruption.disrupting import Disruptor
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.apis.warm import STATES
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.decision import Proposal
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.pods_elsewhere import pods_elsewhere
from tenon.disruption.search.rescheduling import Rescheduler
from tenon.disruption.situation import Situation
from tenon.ec2.refusals.backoff import Backoff
from tenon.kube.offerings import OfferingKey
from tenon.kube.taints import Toleration
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    OpenCommand,
    PoolSavings,
)
from tenon.node.launch_breaker import refused
from tenon.resources import parse_resources
from tenon.rollout.revisions import class_key
from tenon.rollout.versions import PoolPhase, PoolRollout
from tenon.scheduling.model import Node
from tests.activities.disruption.move_setting import Scripted, Setting, command, scripted
from tests.activities.provisioning.fake_view import START, node_class, node_pool
from tests.tenon.scheduling.builders import CATALOG, pod


async def test_dis62_a_pass_leaves_nodes_that_an_open_command_moves_pods_to() -> None:
    names: list[Sequence[str]] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            names.append([node.claim for node in eligible])
            return Proposal()

    at = Setting("a", "b", "c", methods=[Watching(Proposal(), Reason.UNDERUTILIZED, "multi")])
    entry = OpenCommand(command="c1", reason="Drifted", pool="default", until=START, since=START, hosts=["b"])
    look = at.finder.start(at.view.managed, {"c": entry})
    assert look is not None
    await look
    assert names == [["a"]]


async def test_a_pass_knows_what_ec2_refuses() -> None:
    """A move must depend neither on an offering nor on a NodePool that EC2 refused a moment ago."""
    situations: list[Situation] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            situations.append(situation)
            return Proposal()

    async def model(at: Setting) -> ClusterModel:
        await at.run_pass()
        model = situations.pop().model
        assert model is not None
        return model

    watching = Watching(Proposal(), Reason.UNDERUTILIZED, "multi")
    first = CATALOG[0].name
    at = Setting("a", methods=[watching])
    at.refusals.replace_unavailable(
        {OfferingKey("on-demand", first, "us-west-2a"): Backoff(START + timedelta(hours=2))}
    )
    (pool,) = (await model(at)).problem.pools
    assert first not in {kind.name for kind in pool.instance_types}
    assert pool.limits != {"nodes": 0}

    at = Setting("a", methods=[watching])
    at.refusals.update([refused(None, "default", "Unauthorized", "you may not", START + timedelta(minutes=59))])
    assert [pool.limits for pool in (await model(at)).problem.pools] == [{"nodes": 0}]

    at = Setting("a", methods=[watching])
    breaker = refused(None, "default", "InvalidAMIID", "gone", START + timedelta(minutes=59), instance_types=[first])
    at.refusals.update([breaker])
    (pool,) = (await model(at)).problem.pools
    assert {kind.name for kind in pool.instance_types} == {kind.name for kind in CATALOG[1:]}, "only the refused type"
    assert pool.limits != {"nodes": 0}


@pytest.mark.parametrize("state", STATES)
async def test_no_move_counts_on_the_room_of_a_warm_node(state: str) -> None:
    """A pod that tolerates every taint, and would wait there for a start that no plan asks for."""
    at = Setting("a", "n")
    room = parse_resources({"cpu": "4", "memory": "8Gi", "pods": 10})
    tolerant = replace(pod("p", cpu="1"), tolerations=(Toleration(operator="Exists"),))
    at.view.existing = [Node(name, {labels.HOSTNAME: name}, (), room, {}) for name in ("a", "n")]
    at.view.details["a"] = replace(at.view.details["a"], pods=(tolerant,))

    async def hosts() -> list[str]:
        situation, _ = await at.situations.with_model(at.view.managed, {}, asyncio.to_thread)
        assert situation.model is not None
        return [*Rescheduler(situation.model).simulate(["a"], buys=False).placements]

    assert await hosts() == ["n"]
    at.view.warm = {"n": state}
    assert await hosts() == []


async def test_a_search_sees_the_waves_and_the_versions_of_one_moment() -> None:
    """EC2 may take seconds to say what a NodePool can buy, and a user may correct a version meanwhile."""
    at = Setting("a")
    of_wave = PoolRollout("nodes", "default", "old", "v2", PoolPhase.PROGRESSING, frozenset({"a"}))
    at.view.pool_rollouts = {"default": of_wave}
    at.view.waves = [in_version("v2")]
    at.view.classes |= {class_key(pool): node_class() for pool in at.view.waves}
    at.types.on_read = lambda: correct(at, of_wave)
    situation, supply = await at.situations.with_model(at.view.managed, {}, asyncio.to_thread)
    assert at.view.pool_rollouts["default"].target == "v3"
    assert situation.rollouts["default"].target == "v2"
    assert [pool.metadata.annotations[labels.REVISION] for pool, _ in supply.waves.pools_with_types] == ["v2"]


def correct(at: Setting, rollout: PoolRollout) -> None:
    """A user withdraws the version, and the rollout begins with the next one at once."""
    at.view.pool_rollouts = {"default": replace(rollout, target="v3")}
    at.view.waves = [in_version("v3")]


def in_version(digest: str) -> NodePool:
    return node_pool(annotations={labels.REVISION: digest})


async def test_wsh01_a_pass_knows_which_pools_the_workflow_says_are_slowed_down() -> None:
    observations: list[Mapping[str, str]] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            observations.append(situation.slowed)
            return Proposal()

    at = Setting("a", methods=[Watching(Proposal(), Reason.UNDERUTILIZED, "multi")])
    poor = PoolSavings(short=2, predicted=0.2, reached=0.01, at=START + timedelta(minutes=59))
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), slowed=at.slowed)
    await_disruption_input = AwaitDisruptionInput(cluster="c", savings={"default": poor}, wait_seconds=0.01)
    await disruptor.await_candidates(await_disruption_input)
    await at.run_pass()
    assert "saved $0.0100 an hour instead of $0.2000" in observations[0]["default"]


async def test_pods_elsewhere_are_found_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long in a large cluster, and the same loop plans for pods that wait."""
    threads = []
    at = Setting("a", methods=[scripted()])

    def watched(nodes: Sequence[ManagedNode], *value: Any) -> Any:
        threads.append(threading.current_thread())
        return pods_elsewhere(nodes, *value)

    monkeypatch.setattr("tenon.disruption.search.pods_elsewhere.pods_elsewhere", watched)
    await at.run_pass()
    await at.validator.validate(to_message(command("a")), {})
    assert len(threads) == 2
    assert threading.main_thread() not in threads
