"""Drift of NodePools under a rollout: only nodes of a wave are replaced, and by the version that the rollout names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.methods.drift import Drift, StaticDrift
from tenon.disruption.rules.blockers import holds
from tenon.kube.requirements import Requirements
from tenon.rollout.versions import PoolPhase, PoolRollout
from tenon.scheduling.model import Pool
from tests.tenon.disruption.test_drift_methods import Cluster
from tests.tenon.scheduling.builders import ON_DEMAND, pod, pool


def rollout(
    phase: PoolPhase = PoolPhase.PROGRESSING, *claims: str, name: str = "default", **fields: Any
) -> PoolRollout:
    return PoolRollout("nodes", name, "old", "new", phase, frozenset(claims), **fields)


def in_version(name: str, **node_labels: str) -> Pool:
    """The NodePool in a version whose nodes have these labels."""
    version = pool(name, ON_DEMAND)
    return replace(version, requirements=version.requirements.with_(Requirements.from_labels(node_labels)))


def decided(cluster: Cluster, *versions: Pool, **changed: Any) -> Decision:
    situation = cluster.situation(**changed)
    assert situation.model is not None
    model = replace(situation.model, wave_pools={version.name: version for version in versions})
    return decide(replace(situation, model=model), [StaticDrift(), Drift()])


def replaced(decision: Decision) -> list[str]:
    return [candidate.node.claim for command in decision.commands for candidate in command.candidates]


@pytest.mark.parametrize("phase", list(PoolPhase))
def test_a_drifted_node_outside_the_wave_stays_in_every_phase(phase: PoolPhase) -> None:
    cluster = Cluster()
    cluster.add("a", pod("p", "3"))
    state = rollout(phase)
    assert replaced(decided(cluster, rollouts={"default": state})) == []
    situation = cluster.situation(rollouts={"default": state})
    (hold,) = holds(cluster.managed[0], situation, Reason.DRIFTED)
    assert hold.why == state.why_not()
    assert hold.blocker.reported
    others = [reason for reason in Reason if reason is not Reason.DRIFTED]
    kept_by = {hold.blocker.name for reason in others for hold in holds(cluster.managed[0], situation, reason)}
    assert "rollout" not in kept_by, "consolidation, repair and expiry do not wait for it"


def test_without_a_rollout_of_the_nodepool_drift_is_as_before() -> None:
    cluster = Cluster()
    cluster.add("a", pod("p", "3"))
    assert replaced(decided(cluster, rollouts={"other": rollout(name="other")})) == ["a"]


def test_a_node_of_the_wave_gets_the_new_version_and_only_it() -> None:
    cluster = Cluster()
    cluster.add("a", pod("p", "3"))
    cluster.add("b", pod("q", "3"))
    version = in_version("default", **{"example.com/version": "new"})
    decision = decided(cluster, version, rollouts={"default": rollout(PoolPhase.PROGRESSING, "a")})
    assert replaced(decision) == ["a"]
    ((claim,),) = [command.replacements for command in decision.commands]
    assert claim.requirements.labels()["example.com/version"] == "new"
    (command,) = decision.commands
    assert command.explanation[0] == "NodeRollout nodes replaces it by version new"


def test_a_way_back_replaces_nodes_that_did_not_drift_by_the_usual_version() -> None:
    cluster = Cluster()
    cluster.add("a", pod("p", "3"), since=None)
    decision = decided(cluster, rollouts={"default": rollout(PoolPhase.ROLLING_BACK, "a")})
    ((claim,),) = [command.replacements for command in decision.commands]
    assert "example.com/version" not in claim.requirements.labels()
    assert decision.commands[0].explanation[0] == "NodeRollout nodes replaces it by version old"


def test_a_node_waits_while_its_version_can_launch_nothing() -> None:
    cluster = Cluster()
    cluster.add("a", pod("p", "3"))
    situation = cluster.situation(rollouts={"default": rollout(PoolPhase.PROGRESSING, "a")})
    assert replaced(decided(cluster, rollouts=situation.rollouts)) == []
    (hold,) = holds(cluster.managed[0], situation, Reason.DRIFTED)
    assert hold.why == "NodePool default can launch no nodes of version new now"


def test_a_node_of_a_static_nodepool_gets_the_version_of_its_wave() -> None:
    cluster = Cluster()
    cluster.fixed(1)
    cluster.add("a", of="fixed")
    version = in_version("fixed", **{"example.com/version": "new"})
    state = {"fixed": rollout(PoolPhase.PROGRESSING, "a", name="fixed")}
    ((claim,),) = [command.replacements for command in decided(cluster, version, rollouts=state).commands]
    assert claim.requirements.labels()["example.com/version"] == "new"


def test_no_node_of_a_wave_leaves_before_its_replacement() -> None:
    """What provisioning buys for its pods afterwards would not have the new version."""
    cluster = Cluster()
    cluster.fixed(1, limits={"nodes": 1})
    cluster.add("a", of="fixed")
    version = in_version("fixed", **{"example.com/version": "new"})
    situation = cluster.situation(rollouts={"fixed": rollout(PoolPhase.PROGRESSING, "a", name="fixed")})
    assert situation.model is not None
    model = replace(situation.model, wave_pools={"fixed": replace(version, limits={"nodes": 1})})
    decision = decide(replace(situation, model=model), [StaticDrift(terminate_first=True)])
    assert decision.commands == ()
    assert labels.NODEPOOL in cluster.nodes[0].labels
