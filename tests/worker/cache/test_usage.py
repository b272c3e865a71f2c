"""What NodePools use: one walk for all of them, each quantity read once."""

from __future__ import annotations

import pytest

from tenon.kube.claim_record import ClaimRecord
from tests.worker.cache.cluster_state import STATUS, state
from tests.worker.cache.objects import claim, node
from worker.cache import usage
from worker.cache.quantities import claimed
from worker.cache.state import ClusterState
from worker.cache.usage import pool_usages


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The claims whose quantities are read, in order."""
    names: list[str] = []
    read = claimed

    def noted(claim: ClaimRecord, field: str) -> dict[str, int]:
        names.append(claim.name)
        return read(claim, field)

    monkeypatch.setattr(usage, "claimed", noted)
    return names


def fleet() -> ClusterState:
    """Three pools with two claims each, of which one has a Node."""
    pools = [f"pool-{number}" for number in range(3)]
    meta = [{"labels": {"karpenter.sh/nodepool": pool}} for pool in pools]
    claims = [
        claim(f"{name}-{n}", node_name=f"{name}{n}", meta=meta[n], status=STATUS) for n in range(3) for name in "ab"
    ]
    return state(claims=claims, nodes=[node(f"a{n}") for n in range(3)])


def test_all_pools_are_counted_in_one_walk_that_reads_only_what_changed(reads: list[str]) -> None:
    """To count each of 20 pools of 5,000 nodes by itself took three seconds of the leader's event loop."""
    cluster_state = fleet()
    usages = pool_usages(cluster_state)
    assert {pool: (used["nodes"], used["cpu"]) for pool, used in usages.items()} == {
        "pool-0": (2, 8000),
        "pool-1": (2, 8000),
        "pool-2": (2, 8000),
    }
    assert sorted(reads) == ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"]
    reads.clear()
    assert pool_usages(cluster_state, at_most=True) == usages
    assert reads == []
    cluster_state.nodes.on_event("a1", node("a1", cpu="6"))
    cluster_state.claims.on_event("b-2", None)
    usages = pool_usages(cluster_state)
    assert (usages["pool-1"]["cpu"], usages["pool-2"]["nodes"]) == (10_000, 1)
    assert reads == ["a-1"]


def test_a_node_that_reports_too_much_does_not_use_up_the_limits_of_its_pool() -> None:
    """A kubelet writes the capacity of its Node, and would stop the purchases of the NodePool."""
    usages = pool_usages(state(claims=[claim(status=STATUS)], nodes=[node(cpu="1000000")]))
    assert usages["pool"]["cpu"] == 8000
    usages = pool_usages(state(claims=[claim(status=STATUS)], nodes=[node(cpu="5")]))
    assert usages["pool"]["cpu"] == 5000, "the claim's figure is an estimate"
