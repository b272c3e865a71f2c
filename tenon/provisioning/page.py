"""The provisioner's page in Temporal's UI: its last batches, and what EC2 and kube-scheduler refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tenon.ec2.refusals.unavailable import shortages
from tenon.messages.provisioning import LaunchBreaker, PlanResult, PurchasePause, ShortageWait, UnavailableTypes
from tenon.node import breaker
from tenon.sentences import counted, first_few, for_temporal_ui, shortened

REMEMBERED = 10
"""How many of the last batches the workflow remembers."""
NAMED_CLAIMS = 5
"""How many NodeClaims of a batch a line names."""
LISTED = 5
"""How many lines a section of the page has."""
MAX_LINE = 250
WHY = "kube-scheduler finds no place for some pods: this workflow collects them in batches and buys nodes for them"
ABOUT = """This workflow buys nodes: it collects pods that fit on no node, plans them together, and creates NodeClaims.
Each NodeClaim has a workflow of its own. Current Details show the last batches and what EC2 refuses.

It needs nothing from you: its signals come from Tenon. If you terminate it, Tenon starts it again within a minute."""


def headline(cluster: str, last_batches: Sequence[str]) -> str:
    """Say in one line what the workflow does, and its last batch."""
    last = f"; last batch: {last_batches[-1].replace('`', '')}" if last_batches else ""
    return f"Buys nodes for pods that fit on no node of cluster {cluster}{last}"


def remembered(lines: Sequence[str], plan: PlanResult, batch: int, now: datetime) -> list[str]:
    """Return the last batches with one that was planned now."""
    parts = []
    if plan.claims:
        parts.append(f"bought {first_few(plan.claims, NAMED_CLAIMS)} at {plan.price:.4f} USD/h")
    if plan.placed_on_existing:
        parts.append(f"{counted(plan.placed_on_existing, 'pod')} on nodes that exist or start")
    if plan.unschedulable:
        parts.append(f"{counted(plan.unschedulable, 'pod')} fit nowhere: `tenon simulate --live` says why")
    if plan.waits:
        parts.append(f"{counted(sum(wait.pods for wait in plan.waits), 'pod')} wait for cheaper capacity")
    if plan.refused:
        parts.append(f"the API server rejected {counted(plan.refused, 'NodeClaim')}")
    if plan.unreached:
        parts.append(f"{counted(plan.unreached, 'pod')} left to the next batch")
    text = "; ".join(parts) or "nothing to buy"
    line = f"`{now:%Y-%m-%d %H:%M:%S}` batch {batch}, {counted(plan.pods, 'pod')}: {text}"
    return [*lines, shortened(line, MAX_LINE)][-REMEMBERED:]


def current_details(
    cluster: str,
    action: str,
    last_batches: Sequence[str],
    unavailable: Iterable[UnavailableTypes],
    breakers: Iterable[LaunchBreaker],
    waits: Iterable[ShortageWait],
    pauses: Iterable[PurchasePause],
    now: datetime,
) -> str:
    """Render the page as Markdown. ``action``: what the workflow does now, a clause."""
    paused = [pause for pause in pauses if pause.until is not None and pause.until > now]
    lines = [
        f"### Buys nodes for pods that fit on no node of cluster {cluster}",
        "",
        f"**Now:** it {action}",
        *_section("What EC2 refuses", [shortage.sentence for shortage in shortages(unavailable, now)]),
        *_section("Launches that are held back", map(_breaker, breakers)),
        *_section("Pods that wait for cheaper capacity", map(_wait, (wait for wait in waits if wait.until > now))),
        *_section("Pods for which no more nodes are bought", map(_pause, paused)),
        *_section("Last batches (UTC)", reversed(last_batches), REMEMBERED),
    ]
    return for_temporal_ui("\n".join(lines))


def _section(title: str, sentences: Iterable[str], most: int = LISTED) -> list[str]:
    lines = [f"- {shortened(sentence, MAX_LINE)}" for sentence in sentences]
    if not lines:
        return []
    more = [f"- and {len(lines) - most} more"] if len(lines) > most else []
    return ["", f"#### {title}", "", *lines[:most], *more]


def _breaker(open_breaker: LaunchBreaker) -> str:
    text = breaker.sentence(open_breaker)
    return f"{breaker.subject(open_breaker)}: {text}; next try {open_breaker.next_probe_at:%Y-%m-%d %H:%M:%S} UTC"


def _wait(wait: ShortageWait) -> str:
    return (
        f"{counted(wait.pods, 'pod')} of NodePool {wait.pool} until {wait.until:%Y-%m-%d %H:%M:%S} UTC: EC2 sells "
        f"{wait.instance_type} at {wait.price:.4f} USD/h, and refuses {wait.usual_type} at {wait.usual_price:.4f} USD/h"
    )


def _pause(pause: PurchasePause) -> str:
    pods = f"{counted(pause.waiting, 'pod')} ({', '.join(pause.pods)})" if pause.pods else counted(pause.waiting, "pod")
    until = f"{pause.until:%Y-%m-%d %H:%M:%S} UTC" if pause.until else ""
    why = f": {pause.refusal}" if pause.refusal else ""
    return f"{pods} until {until}: kube-scheduler placed none on {counted(pause.nodes, 'new node')}{why}"
