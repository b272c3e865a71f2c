"""Purchases of another controller beside those of Tenon's engine: each pod counts once, and the reasons are true."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenon.kube.pod import Pod
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Problem
from tenon.shadow.batches import BatchComparison, Batches, Bought, Purchases, RealClaim, why_different
from tests.tenon.scheduling.builders import pool, replicas
from tests.tenon.shadow.models import NOW, PRICES

LARGE = ("m5.4xlarge", "us-west-2a", "on-demand")


def planned(pods: Sequence[Pod], _without: frozenset[str]) -> Plan:
    return solve(Problem(pods, [pool()]))


def claim(name: str, offering: tuple[str, str, str] = LARGE, pods: int = 0) -> RealClaim:
    return RealClaim(name, "default", NOW, offering, pods)


class Watch:
    """Looks at a cluster that the test describes."""

    def __init__(self) -> None:
        self.batches = Batches()
        self.claims: dict[str, RealClaim] = {}
        self.pending: list[Pod] = []
        self.places: dict[str, str] = {}
        self.now = NOW

    def look(self, seconds: float = 2.0) -> list[BatchComparison]:
        self.now += seconds
        places = {pod.uid: "" for pod in self.pending} | self.places
        return self.batches.observe(self.now, self.claims, self.pending, places.get, planned, PRICES)

    def bind(self) -> None:
        self.places |= {pod.uid: "node" for pod in self.pending}
        self.pending = []


def test_a_batch_is_compared_once_its_pods_run() -> None:
    watch = Watch()
    watch.pending = replicas(4)
    assert not watch.look()
    watch.claims["a"] = claim("a")
    assert not watch.look()
    assert not watch.look(11)
    watch.bind()
    (comparison,) = watch.look()
    assert comparison.pods == 4
    assert (comparison.theirs.count, comparison.theirs.price) == (1, PRICES[LARGE])
    assert comparison.ours.price < comparison.theirs.price
    assert comparison.difference == pytest.approx(comparison.theirs.price - comparison.ours.price)
    assert "instead of m5.4xlarge" in why_different(comparison)
    assert not watch.look(20)


def test_pods_that_are_bound_before_their_node_claim_is_seen_are_in_its_batch() -> None:
    watch = Watch()
    watch.pending = replicas(2)
    watch.look()
    watch.bind()
    watch.claims["a"] = claim("a")
    watch.look()
    (comparison,) = watch.look(11)
    assert comparison.pods == 2


def test_no_pod_is_in_two_batches() -> None:
    watch = Watch()
    watch.pending = replicas(3)
    watch.claims["a"] = claim("a")
    watch.look()
    watch.look(11)
    watch.pending = [*watch.pending, *replicas(2, prefix="q")]
    watch.claims["b"] = claim("b")
    watch.look()
    watch.look(11)
    watch.bind()
    comparisons = watch.look()
    assert sorted(comparison.pods for comparison in comparisons) == [2, 3]


def test_pods_that_come_after_the_last_node_claim_are_of_the_next_batch() -> None:
    watch = Watch()
    watch.pending = replicas(3)
    watch.claims["a"] = claim("a")
    watch.look()
    watch.pending = [*watch.pending, *replicas(2, prefix="q")]
    watch.look()
    watch.look(11)
    watch.claims["b"] = claim("b")
    watch.look()
    watch.look(11)
    watch.bind()
    assert [comparison.pods for comparison in watch.look()] == [3, 2]


def test_node_claims_without_waiting_pods_are_replacements() -> None:
    watch = Watch()
    watch.claims["a"] = claim("a")
    watch.look()
    assert not watch.look(11)
    assert watch.batches.replacements == 1


def test_pods_that_only_one_of_both_places_are_named() -> None:
    watch = Watch()
    watch.pending = replicas(1, cpu="500")
    watch.claims["a"] = claim("a")
    watch.look()
    watch.look(11)
    watch.bind()
    (comparison,) = watch.look()
    assert (comparison.theirs.unplaced_count, comparison.ours.unplaced_count) == (0, 1)
    assert "default/p-0" in comparison.ours.unplaced
    assert not comparison.is_fair
    assert why_different(comparison) == "Tenon leaves 1 pod without a node that Karpenter places"


def test_a_batch_whose_pods_wait_forever_is_compared_as_it_is() -> None:
    watch = Watch()
    watch.pending = replicas(1)
    watch.claims["a"] = claim("a", ("", "", ""))
    watch.look()
    watch.look(11)
    (comparison,) = watch.look(200)
    assert comparison.theirs.unplaced_count == 1
    assert comparison.theirs.count == 0


def test_a_node_without_a_price_makes_a_comparison_unfair() -> None:
    watch = Watch()
    watch.pending = replicas(1)
    watch.claims["a"] = claim("a", ("kwok-1", "zone", "on-demand"))
    watch.look()
    watch.look(11)
    watch.bind()
    (comparison,) = watch.look()
    assert not comparison.is_fair
    assert "not known" in why_different(comparison)


def test_a_purchase_says_in_one_sentence_what_tenon_does_otherwise() -> None:
    theirs = Purchases([Bought("m5.4xlarge", "a", "on-demand", 3, 2.0)], {}, 0)
    reuses = BatchComparison(NOW, 44, ["web"], theirs, Purchases([], {}, 0, on_existing=44))
    assert why_different(reuses) == (
        "Tenon puts 44 of 44 pods on nodes that exist already and buys no node instead of 3"
    )
    buys = Purchases([Bought("m5.large", "a", "on-demand", 1, 0.1)], {}, 0, on_existing=1)
    assert why_different(BatchComparison(NOW, 2, ["web"], theirs, buys)) == (
        "Tenon puts 1 of 2 pods on nodes that exist already, buys 1 node instead of 3, and takes m5.large instead of "
        "m5.4xlarge"
    )


@pytest.mark.parametrize(("requested", "others"), [((0, 3), 0), ((1, 3), 0), ((4, 4), 4), ((4, 0), 0)])
def test_a_purchase_with_a_replacement_in_it_is_not_compared(requested: tuple[int, int], others: int) -> None:
    """A node for pods that move would count as bought for those that wait, and Tenon would seem to save its price."""
    watch = Watch()
    watch.pending = replicas(4)
    watch.look()
    watch.claims |= {name: claim(name, pods=pods) for name, pods in zip("ab", requested, strict=True)}
    watch.look()
    watch.look(11)
    watch.bind()
    (comparison,) = watch.look()
    assert comparison.other_pods == others
    assert comparison.is_fair == (not others)
    assert ("also for 4 pods of nodes that leave" in why_different(comparison)) == bool(others)
