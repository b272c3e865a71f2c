"""Which pods keep graceful methods away from an empty node, as the cache sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.disruption.rules.held_pods import held_until
from tenon.kube.records import PodRecord
from tests.worker.cache.objects import budget, claim, node, owned_by, running
from worker.cache.cluster import ClusterCache
from worker.cache.managed_nodes import ManagedNodes

KEPT = "karpenter.sh/do-not-disrupt"


def annotated(value: str, **meta: Any) -> dict[str, Any]:
    return {**meta, "annotations": {KEPT: value, **meta.get("annotations", {})}}


def daemon(*, since: str = "2026-01-01T00:00:00Z", **options: Any) -> PodRecord:
    meta = {**owned_by("DaemonSet"), "labels": {"app": "web"}, **options.pop("meta", {})}
    return running("agent", "n", since=since, meta=meta, **options)


def held_by(*pods: PodRecord, budgets: tuple[Any, ...] = ()) -> str:
    cache = ClusterCache(None)  # type: ignore[arg-type]
    cache.nodes.on_event("n", node())
    cache.claims.on_event("claim", claim(initialized="2026-01-01T00:00:00Z"))
    for pod in pods:
        cache.pods.on_event(pod.key, pod)
    for pdb in budgets:
        cache.moving.pdbs.on_event(pdb.key, pdb)
    (result,) = ManagedNodes(cache).now()
    assert result.empty
    return result.held_by


def recently() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    "pod",
    [
        daemon(meta=annotated("true")),
        daemon(meta=annotated("1h"), since=recently()),
        daemon(meta={"annotations": {"karpenter.sh/do-not-evict": "true"}}),
        running("static", "n", meta=annotated("true", annotations={"kubernetes.io/config.mirror": "x"})),
        daemon(meta=annotated("true"), tolerations=[{"operator": "Exists"}]),
    ],
)
def test_dis13_ann01_do_not_disrupt_counts_on_pods_that_no_other_node_would_run(pod: PodRecord) -> None:
    """The drain of the node would never end."""
    assert held_by(pod).startswith(f"pod {pod.key}: annotation")


@pytest.mark.parametrize(
    "pod",
    [
        daemon(),
        daemon(meta=annotated("false")),
        daemon(meta=annotated("1h")),
        daemon(meta=annotated("true"), status={"phase": "Failed"}),
        daemon(meta=annotated("true", deletionTimestamp="2026-01-01T00:00:00Z")),
    ],
)
def test_dis13_pods_that_are_not_protected_or_that_end_hold_nothing(pod: PodRecord) -> None:
    assert held_by(pod) == ""


def stated(allowed: int, name: str = "keep", **spec: Any) -> Any:
    """A PodDisruptionBudget on which the disruption controller has reported."""
    return budget(name, disruptions_allowed=allowed, **spec)


@pytest.mark.parametrize(
    ("budgets", "holds"),
    [
        ((budget(maxUnavailable=0),), "PodDisruptionBudget ns/keep allows no eviction"),
        ((stated(0, minAvailable=1),), "PodDisruptionBudget ns/keep allows no eviction"),
        ((budget(minAvailable=1),), "PodDisruptionBudget ns/keep allows no eviction"),
        ((stated(1, minAvailable=1),), ""),
        ((stated(0, app="other"),), ""),
        ((stated(0, meta={"namespace": "other"}),), ""),
        ((stated(1), stated(1, "more")), "PodDisruptionBudgets ns/keep, ns/more all select it"),
    ],
)
def test_dis13_a_budget_at_zero_or_several_budgets_hold_the_node_of_a_daemon(
    budgets: tuple[Any, ...], holds: str
) -> None:
    result = held_by(daemon(), budgets=budgets)
    assert result == (f"pod ns/agent: {holds}" if holds else "")


@pytest.mark.parametrize(
    "pod",
    [
        daemon(tolerations=[{"key": "karpenter.sh/disrupted", "operator": "Exists"}]),
        running("static", "n", meta={"labels": {"app": "web"}, "annotations": {"kubernetes.io/config.mirror": "x"}}),
    ],
)
def test_dis13_a_budget_does_not_matter_for_pods_that_a_drain_leaves_alone(pod: PodRecord) -> None:
    assert held_by(pod, budgets=(stated(0),)) == ""


@pytest.mark.parametrize(
    ("value", "why"),
    [("1h", "PodDisruptionBudget ns/keep allows no eviction"), ("true", f"annotation {KEPT} protects it")],
)
def test_of_two_holds_of_a_pod_the_one_without_an_end_is_named(value: str, why: str) -> None:
    """A forecast says that nothing that keeps the node ends by itself."""
    pod = daemon(meta=annotated(value), since=recently())
    assert held_by(pod, budgets=(stated(0),)) == f"pod ns/agent: {why}"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("annotations", "budgets", "until"),
    [
        (("1h", "2h"), (), at("2026-01-01T02:00:00Z")),
        (("1h", "true"), (), None),
        (("1h",), (stated(0),), None),
        (("1h",), (stated(1),), at("2026-01-01T01:00:00Z")),
        ((), (), at("2026-01-01T00:30:00Z")),
    ],
)
def test_what_holds_a_node_ends_with_the_last_duration_if_nothing_else_holds_it(
    annotations: tuple[str, ...], budgets: tuple[Any, ...], until: datetime | None
) -> None:
    pods = [(daemon(meta=annotated(value)), [item.value for item in budgets]) for value in annotations]
    assert held_until(pods, at("2026-01-01T00:30:00Z")) == until


def test_a_duration_that_has_not_begun_has_no_end() -> None:
    assert held_until([(daemon(since="", meta=annotated("1h")), ())], at("2026-01-01T00:30:00Z")) is None


@pytest.mark.parametrize(
    ("ready", "policy", "holds"),
    [
        ("False", "AlwaysAllow", False),
        ("True", "AlwaysAllow", True),
        ("False", "IfHealthyBudget", True),
        ("False", None, True),
    ],
)
def test_dis13_a_budget_may_spare_pods_that_are_not_ready(ready: str, policy: str | None, holds: bool) -> None:
    pod = daemon(status={"conditions": [{"type": "Ready", "status": ready}]})
    spec: dict[str, Any] = {} if policy is None else {"unhealthyPodEvictionPolicy": policy}
    for item in (stated(0, **spec), budget(maxUnavailable=0, **spec)):
        assert bool(held_by(pod, budgets=(item,))) is holds


def test_dis13_a_budget_that_allows_an_eviction_again_frees_the_node() -> None:
    cache = ClusterCache(None)  # type: ignore[arg-type]
    cache.nodes.on_event("n", node())
    cache.claims.on_event("claim", claim(initialized="2026-01-01T00:00:00Z"))
    pod = daemon()
    cache.pods.on_event(pod.key, pod)
    nodes = ManagedNodes(cache)
    for allowed, hold in ((0, True), (1, False), (0, True)):
        item = stated(allowed)
        cache.moving.pdbs.on_event(item.key, item)
        assert bool(nodes.now()[0].held_by) is hold
