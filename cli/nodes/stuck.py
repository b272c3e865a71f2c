"""What ``tenon node list --blocked`` says besides nodes: commands, pods, launches and capacity, with their remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

from cli.command_reading import CommandView
from cli.nodes.listing import NodeList
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.unavailable import Shortage
from tenon.kube.offerings import OfferingKey
from tenon.kube.timestamps import format_instant, next_attempt
from tenon.money import per_hour
from tenon.node.launch_breaker import sentence, subject
from tenon.provisioning.pending_pods import pending_sentence
from tenon.provisioning.purchase_pauses import list_sentence
from tenon.provisioning.remedies import for_breaker, for_pause, for_refused, for_unplaced, for_wait
from tenon.provisioning.shortage_sentences import waiting_sentence
from tenon.sentences import first_few

SHOWN_NODES = 5
"""How many nodes of a command are named."""


def with_remedies(markdown: str, remedies: Sequence[str]) -> str:
    """Return what is stuck, with what resolves it as a list below."""
    return "\n".join([markdown, "", *(f"- {remedy}" for remedy in remedies)]) if remedies else markdown


def without_nodes_markdown(nodes: NodeList, scarce: Sequence[Shortage]) -> Iterator[str]:
    """Return what is stuck without a node, as Markdown. ``scarce``: what EC2 refuses."""
    for command in nodes.commands:
        yield f"**Command {command.id}**: {_waiting_text(command)}"
    for group in nodes.unplaced:
        yield with_remedies(f"**Pods**: {pending_sentence(group)}", for_unplaced(group))
    for breaker in nodes.refusals.breakers:
        text = f"**{subject(breaker)}**: {sentence(breaker)}: {next_attempt(breaker.next_probe_at)}"
        yield with_remedies(text, for_breaker(breaker))
    for wait in nodes.refusals.waits:
        yield with_remedies(f"**Pending pods**: {waiting_sentence(wait)}", for_wait(wait))
    for shortage in scarce:
        yield with_remedies(f"**Capacity**: {shortage.sentence}", for_refused(shortage.backoffs))
    for pause in nodes.pauses:
        yield with_remedies(f"**Pods**: {list_sentence(pause)}", for_pause(pause))


def without_nodes_documents(nodes: NodeList, scarce: Sequence[Shortage]) -> Iterator[dict[str, Any]]:
    """Return the same as JSON rows, whose NodeClaim is empty."""
    for breaker in nodes.refusals.breakers:
        attempt = format_instant(breaker.next_probe_at)
        node_class = breaker.node_class.partition("@")[0]
        yield _row(breaker.pool, sentence(breaker), for_breaker(breaker), nodeClass=node_class, nextAttemptAt=attempt)
    for wait in nodes.refusals.waits:
        yield _row(wait.pool, waiting_sentence(wait), for_wait(wait), nextAttemptAt=format_instant(wait.until))
    for shortage in scarce:
        offerings = list(starmap(_offering, shortage.backoffs.items()))
        yield _row("", shortage.sentence, for_refused(shortage.backoffs), offerings=offerings)
    for pause in nodes.pauses:
        until = format_instant(pause.until) if pause.until is not None else ""
        own = {"pods": pause.pods, "waitingPods": pause.waiting, "until": until}
        yield _row(pause.pool, list_sentence(pause), for_pause(pause), **own)
    for group in nodes.unplaced:
        yield _row("", pending_sentence(group), for_unplaced(group), pods=group.pods, waitingPods=group.count)
    for command in nodes.commands:
        own = {"command": command.id, "nodes": list(command.nodes)}
        yield _row("", _waiting_text(command), [], **own)


def _row(pool: str, why: str, remedies: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"nodeClaim": "", "nodePool": pool, "blocked": True, "why": why, **more, "remedies": list(remedies)}


def _offering(key: OfferingKey, backoff: Backoff) -> dict[str, str | int]:
    """A refused offering. An empty instance type stands for all, an empty zone for every zone."""
    scope = {"scope": key.scope, "scopeName": key.scope_name} if key.scope else {}
    return {
        "capacityType": key.capacity_type,
        "instanceType": key.instance_type,
        "zone": key.zone,
        **scope,
        "nextAttemptAt": format_instant(backoff.probe_at),
        "refusalsInARow": backoff.refusals,
    }


def _waiting_text(command: CommandView) -> str:
    saving = f", to save {per_hour(command.predicted)}" if command.predicted is not None else ""
    return f"{command.reason} would remove {first_few(list(command.nodes), SHOWN_NODES)}{saving}; it {command.waits}"
