"""Reads what workflows say: those of nodes, running or ended, and the provisioner's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from cli.nodes.visibility import whole_name_in_temporal
from cli.refusals import RefusalsUnknownError, purchase_pauses_of, refusals_of
from tenon.messages.provisioning import LaunchReport, PurchasePause
from tenon.node.ids import NODECLAIM_WORKFLOW, workflows_query
from tenon.node.launch_breaker import sentence, subject
from tenon.provisioning.purchase_pauses import list_sentence
from tenon.provisioning.shortage_sentences import waiting_sentence
from tenon.record.why.answer import Consulted, FactSource
from tenon.record.why.node_life import NodeLife, life_of_result, life_of_state
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError, connect
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

QUERY_TIMEOUT = timedelta(seconds=10)
MAX_NAMESAKES = 20
"""How many workflows of Nodes with the same name are listed."""


class TemporalReader:
    """Asks Temporal, if it answers."""

    def __init__(self, cluster: str, client: Client | None, fault: str = "") -> None:
        self._cluster = cluster
        self._client = client
        self._outcomes = [fault] if fault else []
        self._is_complete = client is not None
        """Whether every question so far had an answer."""

    @classmethod
    async def open(cls, cluster: str) -> TemporalReader:
        """Connect. ``cluster`` is empty if it is not known which cluster is meant."""
        if not cluster:
            return cls(cluster, None, "not asked, because no cluster is named: use --cluster")
        try:
            return cls(cluster, await connect())
        except (TemporalError, PayloadCodecError) as error:
            return cls(cluster, None, str(error).rstrip("."))

    async def whole_name(self, name: str) -> str:
        """Return the name of the Node that a name without its domain stands for; the name itself if there is none.

        Raises:
            AmbiguousNameError: it stands for several Nodes.
        """
        if self._client is None:
            return name
        try:
            return await whole_name_in_temporal(self._client, self._cluster, name)
        except RPCError as error:
            self._failed(f"the workflows of {name} cannot be listed: {error.message}")
            return name

    async def claims_named(self, name: str) -> list[str]:
        """Return the NodeClaims whose Node or instance has this name, the newest first, running or ended."""
        if self._client is None or "'" in name:
            return []
        own = f"{names.NODE.name} = '{name}' OR {names.INSTANCE.name} = '{name}'"
        query = f"{workflows_query(self._cluster, NODECLAIM_WORKFLOW)} AND ({own})"
        try:
            ids = [execution.id async for execution in self._client.list_workflows(query, limit=MAX_NAMESAKES)]
        except RPCError as error:
            self._failed(f"the workflows of {name} cannot be listed: {error.message}")
            return []
        return list(dict.fromkeys(workflow.rsplit("/", 1)[-1] for workflow in ids))

    async def life(self, claim: str) -> NodeLife | None:
        """Return what the newest workflow of a NodeClaim says; None if there is none, or it does not answer."""
        if self._client is None:
            return None
        workflow = names.nodeclaim_id(self._cluster, claim)
        handle = self._client.get_workflow_handle_for(NodeClaimWorkflow.run, workflow)
        try:
            description = await handle.describe(rpc_timeout=QUERY_TIMEOUT)
            if description.status is WorkflowExecutionStatus.COMPLETED:
                result = await handle.result(rpc_timeout=QUERY_TIMEOUT)
                self._outcomes.append(f"workflow {workflow} has ended, and its result is kept until its retention ends")
                return life_of_result(result, workflow)
            state = await handle.query(NodeClaimWorkflow.status, rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                self._outcomes.append(f"no workflow {workflow} (any more)")
            else:
                self._failed(error.message)
        except (WorkflowQueryFailedError, WorkflowFailureError, PayloadCodecError) as error:
            self._failed(f"workflow {workflow} does not answer: {error}")
        else:
            self._outcomes.append(f"workflow {workflow} answered")
            return life_of_state(state, workflow)
        return None

    async def waits(self, *, pod: str = "", pool: str = "") -> list[str]:
        """Return what the provisioner's workflow says of a pod or a NodePool, in sentences."""
        if self._client is None:
            return []
        try:
            refusals = await refusals_of(self._client, self._cluster)
            pauses = await purchase_pauses_of(self._client, self._cluster)
        except RefusalsUnknownError as error:
            self._failed(str(error))
            return []
        except PayloadCodecError as error:
            self._failed(str(error).rstrip("."))
            return []
        self._outcomes.append("the provisioner's workflow answered")
        return _of_pod(refusals, pauses, pod) if pod else _of_pool(refusals, pauses, pool)

    def consulted(self) -> Consulted:
        """What Temporal said as a whole."""
        outcome = "; ".join(self._outcomes) or "it knows nothing of it"
        return Consulted(FactSource.TEMPORAL, outcome, is_answer=self._is_complete)

    def _failed(self, outcome: str) -> None:
        self._is_complete = False
        self._outcomes.append(outcome)


def _of_pod(refusals: LaunchReport, pauses: Sequence[PurchasePause], pod: str) -> list[str]:
    waits = [waiting_sentence(wait) for wait in refusals.waits if wait.pod == pod]
    return waits + [list_sentence(pause) for pause in pauses if pod in pause.pods]


def _of_pool(refusals: LaunchReport, pauses: Sequence[PurchasePause], pool: str) -> list[str]:
    breakers = [breaker for breaker in refusals.breakers if breaker.pool in (pool, "")]
    sentences = [f"{subject(breaker)}: {sentence(breaker)}" for breaker in breakers]
    sentences += [waiting_sentence(wait) for wait in refusals.waits if wait.pool == pool]
    return sentences + [list_sentence(pause) for pause in pauses if pause.pool == pool]
