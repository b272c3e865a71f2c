"""Nodes that expire together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.kube.timestamps import time_text
from tenon.report.advice.base import Advice, Question, cost_text
from tenon.report.live import LiveNode, dollars_a_day

LEAST = 5
"""Fewer nodes that expire together are no burst."""
BURST = timedelta(hours=1)
AHEAD = timedelta(days=7)


def expire_together(question: Question) -> Iterator[Advice]:
    """Return for each NodePool the largest number of nodes that expire within an hour in the next days."""
    now = question.cluster.fleet.now
    by_pool: dict[str, list[tuple[datetime, LiveNode]]] = defaultdict(list)
    for obstacles in question.settled:
        expires_at, policy = obstacles.managed.expires_at, question.judge.situation.policies.get(obstacles.managed.pool)
        if expires_at is None or policy is None or policy.expire_within_budgets:
            continue
        if now <= expires_at <= now + AHEAD:
            by_pool[policy.name].append((expires_at, obstacles.live))
    for pool, expiring in sorted(by_pool.items()):
        burst = _largest_burst(sorted(expiring, key=lambda item: (item[0], item[1].name)))
        if len(burst) < LEAST:
            continue
        nodes = [live for _, live in burst]
        yield Advice(
            rule="expire-together",
            sentence=(
                f"{cost_text(nodes)} of NodePool {pool} expire within the same hour, from "
                f"{time_text(burst[0][0])}, and expiration asks no disruption budget"
            ),
            action=(
                f'The annotation {labels.EXPIRE_WITHIN_BUDGETS}: "true" on NodePool {pool} makes them wait for its '
                "budgets; `tenon node expire NAME` removes one earlier"
            ),
            nodes=sorted(live.name for live in nodes),
            dollars_a_day=dollars_a_day(nodes),
            figures={"nodes": len(nodes)},
        )


def _largest_burst(expiring: Sequence[tuple[datetime, LiveNode]]) -> Sequence[tuple[datetime, LiveNode]]:
    largest: Sequence[tuple[datetime, LiveNode]] = ()
    first = 0
    for last, (instant, _) in enumerate(expiring):
        while instant - expiring[first][0] > BURST:
            first += 1
        if last + 1 - first > len(largest):
            largest = expiring[first : last + 1]
    return largest
