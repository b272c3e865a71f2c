"""What a node's run writes into the search attributes: only what changed, and only values that Temporal accepts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tenon.evolve import evolve
from tenon.messages.base import ClaimRef
from tenon.messages.launch import Instance
from tenon.node.state import NodeClaimInput, NodeState, Stage
from tests.activities.node.fake_kube import START
from workflows import names, nodeclaim
from workflows.nodeclaim import NodeClaimWorkflow

REF = ClaimRef(cluster="sandbox", name="web-1", uid="uid-web-1")
INSTANCE = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="on-demand",
    image_id="ami-1",
    price=0.1,
)
LIVE = NodeState(claim=REF, stage=Stage.LIVE, pool="web", instance=INSTANCE, expires_at=START + timedelta(days=30))


class Written(list[dict[str, Any]]):
    """The search attributes of each write, by name."""

    def add(self, updates: list[Any]) -> None:
        self.append({update.key.name: update.value for update in updates})


def continued(monkeypatch: pytest.MonkeyPatch, state: NodeState) -> tuple[NodeClaimWorkflow, Written]:
    """A run that continues an earlier one, and what it writes."""
    written = Written()
    runtime = SimpleNamespace(
        info=lambda: SimpleNamespace(first_execution_run_id="r", start_time=START),
        now=lambda: START,
        logger=SimpleNamespace(info=lambda *_, **__: None),
        set_current_details=lambda _: None,
        upsert_search_attributes=written.add,
    )
    monkeypatch.setattr(nodeclaim, "workflow", runtime)
    return NodeClaimWorkflow(NodeClaimInput(claim=REF, pool="web", state=state)), written


def test_a_continued_run_whose_node_is_unchanged_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal carries the attributes over, and each write is billed."""
    node, written = continued(monkeypatch, LIVE)
    node._take_inbox()
    node._show()
    assert written == []


def test_a_request_in_the_first_task_of_a_continued_run_can_be_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a node that drains for hours is listed as live, without a reason."""
    node, written = continued(monkeypatch, LIVE)
    node.drain()
    node._take_inbox()
    node._show()
    (attributes,) = written
    assert (attributes[names.STAGE.name], attributes[names.REASON.name]) == ("leaving", "Drain")


@pytest.mark.parametrize("field", ["expires_at", "keep_until"])
def test_an_expiry_that_temporal_cannot_store_is_written_as_a_late_one(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """Elasticsearch has nanoseconds since 1970, which end in 2262. It would refuse each task of the node for ever."""
    node, written = continued(monkeypatch, LIVE)
    node.state = evolve(LIVE, **{field: datetime(9999, 12, 31, tzinfo=UTC)})
    node._show()
    (attributes,) = written
    assert START < attributes[names.EXPIRES.name] < datetime(2262, 4, 11, tzinfo=UTC)


def test_an_expiry_that_temporal_can_store_is_written_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    node, written = continued(monkeypatch, LIVE)
    node.state = evolve(LIVE, keep_until=START + timedelta(days=90))
    node._show()
    assert [attributes[names.EXPIRES.name] for attributes in written] == [START + timedelta(days=90)]
