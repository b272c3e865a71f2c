"""What becomes of a command whose candidates accept, refuse, leave already, or do not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.disruption.ask_to_leave import disrupt
from tenon.apis.reasons import Reason
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand, DisruptResult
from tenon.messages.node import DisruptAnswer
from tenon.node.ids import nodeclaim_id
from tests.activities.node.fake_kube import START

NO_WORKFLOW = RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
AWAY = RPCError("Temporal does not answer", RPCStatusCode.UNAVAILABLE, b"")


class Nodes:
    """Stands for Temporal: the workflows of nodes answer to an update."""

    def __init__(self, **answers: DisruptAnswer | Exception) -> None:
        self.answers = {nodeclaim_id("sandbox", name): answer for name, answer in answers.items()}

    def get_workflow_handle(self, ident: str) -> Any:
        async def execute_update(*_: Any, **__: Any) -> DisruptAnswer:
            answer = self.answers[ident]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return SimpleNamespace(execute_update=execute_update)


async def ask(**answers: DisruptAnswer | Exception) -> DisruptResult:
    """The result of a command whose candidates answer so, by name."""
    candidates = [DisruptionCandidate(claim=name, uid=name, pool="web", since=START) for name in answers]
    command = DisruptionCommand(id="drifted-1", reason=Reason.DRIFTED, candidates=candidates)
    environment = ActivityEnvironment(client=cast("Any", Nodes(**answers)))
    result: DisruptResult = await environment.run(disrupt, DisruptInput(cluster="sandbox", command=command))
    return result


async def test_dis_64_each_candidate_is_accepted_refused_or_leaving() -> None:
    """One that leaves already keeps its taint and its replacement, like one that accepts."""
    failed = WorkflowUpdateFailedError(ApplicationError("no rule for this"))
    result = await ask(
        accepts=DisruptAnswer(accepted=True, price=0.1),
        keeps=DisruptAnswer(accepted=False, why="kept until tomorrow"),
        leaves=DisruptAnswer(accepted=False, why="already leaving: Expired", leaving=True),
        gone=NO_WORKFLOW,
        fails=failed,
    )
    assert result == DisruptResult(
        accepted=["accepts"],
        refused={
            "keeps": "kept until tomorrow",
            "leaves": "already leaving: Expired",
            "gone": "its workflow is gone",
            "fails": "no rule for this",
        },
        leaving=["leaves", "gone"],
        prices={"accepts": 0.1},
    )


async def test_a_candidate_is_not_taken_for_gone_while_temporal_does_not_answer() -> None:
    """The request is repeated. Otherwise the command would be over, and the node might have accepted it."""
    with pytest.raises(RPCError, match="does not answer"):
        await ask(accepts=DisruptAnswer(accepted=True), silent=AWAY)
