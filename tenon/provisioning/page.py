"""The provisioner's page in Temporal's UI: its last batches, and what EC2 and kube-scheduler refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from tenon.ec2.refusals.unavailable import Shortage, backoffs_of, by_offering, shortages
from tenon.evolve import evolve
from tenon.kube.timestamps import next_attempt, time_text
from tenon.messages.provisioning import (
    BatchOutcome,
    ClusterCost,
    LaunchBreaker,
    PendingPods,
    PlanResult,
    PurchasePause,
    UnavailableTypes,
)
from tenon.node import launch_breaker
from tenon.provisioning.batch_lines import REMEMBERED, batch_line, unlaunched
from tenon.provisioning.cost_section import MORE, cost_section
from tenon.provisioning.pending_pods import pending_sentence, pending_title
from tenon.provisioning.remedies import for_refused, for_unplaced
from tenon.provisioning.shortage_sentences import still_waiting, waiting_sentence
from tenon.sentences import bullets, counted, for_temporal_ui, shortened

LISTED = 5
"""How many lines a section of the page has."""
MAX_LINE = 250
SHORT_CLAUSE = 70
"""Characters of a clause about a NodePool, in the middle: a list has as many clauses as fit with this length."""
MAX_PAGE = 7500
"""The length of the page in a URL: the UI passes it on in one, and proxies refuse those over 8 KB."""


@dataclass(frozen=True, slots=True)
class _Room:
    """How much of what may be long is on the page."""

    pods: int
    """The length of what is said about a group of pods, whose reason has a clause for each NodePool."""
    line: int = MAX_LINE
    """The length of the other lines."""
    costs: int = 5
    """How many NodePools and namespaces have their cost."""
    details: bool = True
    """Whether there are lines for each NodePool and zone, and one that says what resolves it."""


_ROOMS = (_Room(600), _Room(400), _Room(140, 140, 1, details=False))
"""From the largest to the one that always fits."""
WHY = "kube-scheduler finds no place for some pods: this workflow collects them in batches and buys nodes for them"
ABOUT = """This workflow buys nodes: it collects pods that fit on no node, plans them together, and creates NodeClaims.
Each NodeClaim has a workflow of its own. Current Details show the last batches and what EC2 refuses.

It needs nothing from you: its signals come from Tenon. If you terminate it, Tenon starts it again within a minute."""


def headline(cluster: str, last_batches: Sequence[BatchOutcome]) -> str:
    """Say in one line what the workflow does, and its last batch."""
    last = f"; last batch: {batch_line(last_batches[-1]).replace('`', '')}" if last_batches else ""
    return f"Buys nodes for pods that fit on no node of cluster {cluster}{last}"


def current_details(
    cluster: str,
    action: str,
    last_batches: Sequence[BatchOutcome],
    unavailable: Sequence[UnavailableTypes],
    breakers: Iterable[LaunchBreaker],
    plan: PlanResult | None,
    pauses: Iterable[PurchasePause],
    now: datetime,
    cost: ClusterCost | None = None,
) -> str:
    """Render the page as Markdown.

    Args:
        cluster: the name of the cluster.
        action: what the workflow does now, a clause.
        last_batches: what became of each.
        unavailable: what EC2 refuses.
        breakers: the launches that are held back.
        plan: the last one.
        pauses: the pods for which no more nodes are bought.
        now: the current time.
        cost: what the cluster cost when the leader last answered.
    """
    plan = plan or PlanResult()
    refused, refusals = by_offering(unavailable, now), shortages(unavailable, now)
    held_back = list(map(_breaker, breakers))
    unavailable_now = {key: backoff for key, backoff in backoffs_of(unavailable).items() if key in refused}
    waits = list(map(waiting_sentence, still_waiting(plan.waits, unavailable_now, now)))
    paused = [_pause(pause) for pause in pauses if pause.until is not None and pause.until > now]
    text = ""
    for room in _ROOMS:
        lines = [
            f"### Buys nodes for pods that fit on no node of cluster {cluster}",
            "",
            f"**Now:** it {action}",
            *_pending(plan, unlaunched(last_batches), room),
            *_refused(refusals, room),
            *_section("Launches that are held back", held_back, room.line),
            *_section("Pods that wait for cheaper capacity", waits, room.line),
            *_section("Pods for which no more nodes are bought", paused, room.line),
            *_section(
                "Last batches (UTC)", [batch_line(outcome) for outcome in reversed(last_batches)], room.line, REMEMBERED
            ),
            *cost_section(cost, last_batches, room.costs),
            "",
            MORE,
        ]
        text = for_temporal_ui("\n".join(lines))
        if len(quote(text)) <= MAX_PAGE:
            break
    return text


def _pending(plan: PlanResult, refused: Mapping[str, str], room: _Room) -> list[str]:
    """``refused``: the NodeClaims that got no instance. They are no nodes on their way, whatever the plan says."""
    at = f" at {time_text(plan.planned_at)}" if plan.planned_at is not None else ""
    items = [_pending_item(group, remedies, refused, room) for group, remedies in _with_remedies(plan.pending)]
    lines = _items(f"Pods without a node{at}", items, LISTED)
    if plan.pending_left_out:
        lines.append(f"- and {counted(plan.pending_left_out, 'pod')} for other reasons: `tenon pods --pending`")
    return lines


def _with_remedies(groups: Iterable[PendingPods]) -> Iterator[tuple[PendingPods, list[str]]]:
    """Yield the groups, each with what resolves it. If the same resolves several, the first one has it."""
    yielded: set[tuple[str, ...]] = set()
    for group in groups:
        of_any_pod = tuple(for_unplaced(evolve(group, pods=[""])))
        if group.has_place or of_any_pod in yielded:
            yield group, []
        else:
            yielded.add(of_any_pod)
            yield group, for_unplaced(group)


def _pending_item(group: PendingPods, remedies: Sequence[str], refused: Mapping[str, str], room: _Room) -> str:
    """Return what the list says of these pods, with a line for each NodePool if several do not take them.

    The last line says what resolves it, if there are ``remedies``.
    """
    if not room.details:
        return shortened(pending_sentence(group, refused), room.pods)
    resolves = [f"What resolves it: {'; '.join(remedies)}"] if remedies else []
    if len(group.clauses) < 2:
        return _with_lines(shortened(pending_sentence(group, refused), room.pods), resolves)
    shown = group.clauses[: room.pods // SHORT_CLAUSE]
    more = ["and more: `tenon pods --pending`"] if len(group.clauses) > len(shown) else []
    clauses = [*(shortened(clause.text, room.pods // 2) for clause in shown), *more]
    return _with_lines(shortened(pending_title(group), room.pods), [*clauses, *resolves])


def _refused(refusals: Sequence[Shortage], room: _Room) -> list[str]:
    lines = _items("What EC2 refuses", [_refusal_item(shortage, room) for shortage in refusals], LISTED)
    if refusals and room.details:
        lines += ["", f"What resolves it: {'; '.join(_remedies(refusals[:LISTED]))}"]
    return lines


def _remedies(refusals: Iterable[Shortage]) -> list[str]:
    """Return what helps against these refusals, each remedy once."""
    return list(dict.fromkeys(remedy for shortage in refusals for remedy in for_refused(shortage.backoffs)))


def _refusal_item(shortage: Shortage, room: _Room) -> str:
    """Return what the list says of a capacity type or quota, with a line for each zone if it is much."""
    zones = shortage.zones if room.details else []
    if not zones:
        return shortage.sentence
    more = [f"and {counted(len(zones) - LISTED, 'more zone')}"] if len(zones) > LISTED else []
    return _with_lines(shortage.title, [*zones[:LISTED], *more])


def _with_lines(title: str, lines: Iterable[str]) -> str:
    """Return an item of several lines. Temporal's UI would show a list in it on one line, without marks between."""
    return "\\\n  ".join([title, *lines])


def _section(title: str, sentences: Sequence[str], longest: int, most: int = LISTED) -> list[str]:
    return _items(title, [shortened(sentence, longest) for sentence in sentences], most)


def _items(title: str, items: Sequence[str], most: int) -> list[str]:
    if not items:
        return []
    return ["", f"#### {title}", "", *bullets(items, most)]


def _breaker(open_breaker: LaunchBreaker) -> str:
    attempt = next_attempt(open_breaker.next_probe_at)
    return f"{launch_breaker.subject(open_breaker)}: {launch_breaker.sentence(open_breaker)}: {attempt}"


def _pause(pause: PurchasePause) -> str:
    pods = f"{counted(pause.waiting, 'pod')} ({', '.join(pause.pods)})" if pause.pods else counted(pause.waiting, "pod")
    until = time_text(pause.until) if pause.until else ""
    why = f": {pause.refusal}" if pause.refusal else ""
    return f"{pods} until {until}: kube-scheduler placed none on {counted(pause.nodes, 'new node')}{why}"
