"""Nodes that cost more than their pods need, because a NodePool does not let consolidation move them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from tenon.apis.reasons import Reason
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.blockers import CONSOLIDATION_OFF, CONSOLIDATION_POLICY
from tenon.disruption.rules.budgets import allowed, opens_at
from tenon.kube.timestamps import from_epoch
from tenon.node.state import Stage
from tenon.report.advice.base import Advice, Question, cost_text, use_figures, use_text
from tenon.report.live import LiveNode, dollars_a_day
from tenon.report.obstacles import consolidating
from tenon.sentences import counted, lasting

LOW_USE = 0.2
"""A node is hardly used if less than this part of its CPU, of its memory and of its devices is requested."""
NOT_READY_FOR = timedelta(minutes=15)
_OFF = frozenset({CONSOLIDATION_OFF, CONSOLIDATION_POLICY})


def consolidation_is_off(question: Question) -> Iterator[Advice]:
    """Return the hardly used nodes of each NodePool that only its own disruption rules keep."""
    groups: dict[str, list[LiveNode]] = defaultdict(list)
    for obstacles in question.settled:
        policy = question.judge.situation.policies.get(obstacles.managed.pool)
        if policy is None or policy.replicas is not None or not _is_hardly_used(obstacles.live):
            continue
        if not obstacles.names.isdisjoint(_OFF) and question.judge.is_free_with(obstacles, consolidating(policy)):
            groups[policy.name].append(obstacles.live)
    for pool, nodes in sorted(groups.items()):
        policy = question.judge.situation.policies[pool]
        yield Advice(
            rule="consolidation-is-off",
            sentence=(
                f"NodePool {pool} has {cost_text(nodes)} with less than {LOW_USE:.0%} of CPU and memory requested "
                f"(together {use_text(nodes)}), and consolidation is off ({_setting(policy)})"
            ),
            action=(
                f"Set consolidationPolicy: WhenEmptyOrUnderutilized and a consolidateAfter in NodePool {pool}; "
                "`tenon simulate --live --disruption` shows first what that would do"
            ),
            nodes=sorted(live.name for live in nodes),
            dollars_a_day=dollars_a_day(nodes),
            figures={"nodes": len(nodes), **use_figures(nodes)},
        )


def _is_hardly_used(live: LiveNode) -> bool:
    row = live.row
    return max(row.cpu_share, row.memory_share, live.device_share) < LOW_USE and row.stage is Stage.LIVE


def _setting(policy: PoolPolicy) -> str:
    if policy.consolidate_after is None:
        return "consolidateAfter Never"
    return f"consolidationPolicy {policy.consolidation_policy}"


def budgets_that_allow_nothing(question: Question) -> Iterator[Advice]:
    """Return the NodePools whose budgets never allow a consolidation of nodes that nothing else keeps."""
    groups: dict[str, list[LiveNode]] = defaultdict(list)
    for obstacles in question.settled:
        if not obstacles.names:
            groups[obstacles.managed.pool].append(obstacles.live)
    now = question.cluster.fleet.now
    for pool, nodes in sorted(groups.items()):
        policy, total = question.judge.situation.policies[pool], len(nodes)
        reason = Reason.UNDERUTILIZED.camel_case
        if allowed(policy.budgets, reason, total=total, unavailable=0, now=now) > 0:
            continue
        if opens_at(policy.budgets, reason, total=total, unavailable=0, now=now) is not None:
            continue
        yield Advice(
            rule="budget-allows-nothing",
            sentence=(
                f"The budgets of NodePool {pool} allow no consolidation at any time: {cost_text(nodes)} "
                f"{'stays' if total == 1 else 'stay'} whatever {'it costs' if total == 1 else 'they cost'}"
            ),
            action=f"Allow some nodes in spec.disruption.budgets of NodePool {pool}, if need be by a schedule",
            nodes=sorted(live.name for live in nodes),
            dollars_a_day=dollars_a_day(nodes),
            figures={"nodes": total, **use_figures(nodes)},
        )


def nodes_that_are_not_ready(question: Question) -> Iterator[Advice]:
    """Return the nodes that cost money and have run no pods for some time, because they are not ready."""
    now, nodes, shortest = question.cluster.fleet.now, [], None
    for live in question.cluster.nodes:
        if live.node is None or live.row.ready or live.row.stage is not Stage.LIVE:
            continue
        if live.claim is not None and live.claim.warm:  # a stopped node is not broken
            continue
        since = next((from_epoch(item.since) for item in live.node.unhealthy if item.type == "Ready"), None)
        if since is not None and now - since >= NOT_READY_FOR:
            nodes.append(live)
            shortest = now - since if shortest is None else min(shortest, now - since)
    if nodes and shortest is not None:
        verb = "has" if len(nodes) == 1 else "have"
        pods = sum(live.row.pods for live in nodes)
        yield Advice(
            rule="not-ready",
            sentence=f"{cost_text(nodes)} {verb} not been ready for {lasting(shortest)} or more, with "
            f"{counted(pods, 'pod')}",
            action="`kubectl describe node NAME` says why; with the feature gate NodeRepair, Tenon replaces such nodes",
            nodes=sorted(live.name for live in nodes),
            dollars_a_day=dollars_a_day(nodes),
            figures={"nodes": len(nodes), "pods": pods, "seconds": round(shortest.total_seconds())},
        )
