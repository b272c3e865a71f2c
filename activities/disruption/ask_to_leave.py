"""The activity that sends a disruption command to the NodeClaim workflows of its candidates."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from activities.tracing import spans
from tenon.disruption.commands.disrupt_request import disrupt_request
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand, DisruptResult
from tenon.messages.node import DisruptAnswer
from tenon.node.ids import nodeclaim_id

log = loggers.DISRUPTION

CONCURRENCY = 20


@activity.defn(name=ActivityName.DISRUPT)
async def disrupt(disrupt_input: DisruptInput) -> DisruptResult:
    """Ask each candidate's workflow to leave. A candidate without a running workflow counts as refused."""
    accepted: list[str] = []
    refused: dict[str, str] = {}
    gate = asyncio.Semaphore(CONCURRENCY)

    async def ask(candidate: DisruptionCandidate) -> DisruptAnswer:
        async with gate:
            return await _ask(activity.client(), disrupt_input.cluster, disrupt_input.command, candidate)

    answers = await asyncio.gather(*(ask(candidate) for candidate in disrupt_input.command.candidates))
    for candidate, answer in zip(disrupt_input.command.candidates, answers, strict=True):
        if answer.accepted:
            accepted.append(candidate.claim)
        else:
            refused[candidate.claim] = answer.why
    log.info(
        "The worker disrupts nodes",
        extra={
            "command": disrupt_input.command.id,
            "reason": disrupt_input.command.reason,
            "accepted": accepted,
            "refused": refused,
        },
    )
    leaving = [
        candidate.claim
        for candidate, answer in zip(disrupt_input.command.candidates, answers, strict=True)
        if answer.leaving
    ]
    prices = {
        candidate.claim: answer.price
        for candidate, answer in zip(disrupt_input.command.candidates, answers, strict=True)
        if answer.accepted and answer.price
    }
    return DisruptResult(accepted=accepted, refused=refused, leaving=leaving, prices=prices)


async def _ask(
    client: Client, cluster: str, command: DisruptionCommand, candidate: DisruptionCandidate
) -> DisruptAnswer:
    request = evolve(disrupt_request(command, candidate), trace=spans.traceparent())
    handle = client.get_workflow_handle(nodeclaim_id(cluster, candidate.claim))
    # A workflow repeats its answer to the same update. A retry must get that answer, but the same command, started
    # again after a refusal, must get a new one.
    ident = f"{command.id}-{activity.info().workflow_run_id}"
    try:
        answer: DisruptAnswer = await handle.execute_update("disrupt", request, id=ident, result_type=DisruptAnswer)
        return answer
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return DisruptAnswer(accepted=False, why="its workflow is gone", leaving=True)
    except WorkflowUpdateFailedError as error:
        return DisruptAnswer(accepted=False, why=str(error.cause))
