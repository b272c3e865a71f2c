"""Records a search for nodes to disrupt as a trace, to which the traces of the commands that it decided link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from uuid import uuid4

from activities.disruption.decision_metrics import timed
from activities.tracing import spans
from activities.tracing.catalogue import Attribute, Operation, Phase
from tenon.disruption.deciding import MethodReport
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods.base import Method
from tenon.evolve import evolve
from tenon.messages.disruption import DisruptionCommand


def search(step: Phase, at: datetime) -> AbstractContextManager[object]:
    """Record a search. It is work from its beginning to its end, so its span has a length.

    ``step``: `Phase.PASS` or `Phase.EVALUATE`.
    """
    key = f"search/{uuid4()}"  # a search is never continued by another process
    return spans.operation(Operation.SEARCH, key, step, is_first=True, at=at, root={}, attributes={})


@contextmanager
def method_span(method: Method) -> Iterator[MethodReport]:
    """Measure and record one method of a pass."""
    about: spans.Attributes = {Attribute.METHOD: method.name, Attribute.REASON: method.reason.value}
    with timed(method), spans.phase(Phase.METHOD, about):
        yield _tell


def _tell(eligible_count: int, commands: Sequence[Command]) -> None:
    spans.set_attributes({Attribute.CANDIDATES: eligible_count, **_chosen(commands)})


def _chosen(commands: Sequence[Command]) -> dict[Attribute, spans.Value]:
    return {
        Attribute.NODECLAIMS: sum(len(command.candidates) for command in commands),
        Attribute.SAVING: round(sum(command.expected for command in commands), 6),
    }


def recorded(
    decision: Decision, messages: Sequence[DisruptionCommand], nodes: int, *, complete: bool = True
) -> list[DisruptionCommand]:
    """Record what the search under way decided. Returns the commands with its span, to which their traces link.

    Args:
        decision: what it decided, with the commands that are carried out now.
        messages: these commands.
        nodes: how many nodes it looked at.
        complete: whether it tried every candidate.
    """
    if not (trace := spans.traceparent()):
        return list(messages)
    spans.set_attributes(
        {
            Attribute.NODES: nodes,
            Attribute.CANDIDATES: sum(decision.eligible.values()),
            Attribute.BLOCKED: len(decision.blocked),
            Attribute.COMMANDS: ", ".join(message.id for message in messages),
            Attribute.OUTCOME: "" if complete else "it ended before it had tried every node",
            **_chosen(decision.commands),
        }
    )
    return [evolve(message, trace=trace) for message in messages]
