"""What is said about a node, from whichever sources know something."""

from __future__ import annotations

from datetime import datetime

import pytest

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import ClaimRef, TimelineEntry
from tenon.messages.launch import Instance
from tenon.node.state import DrainBlock, Leave, NodeClaimResult, NodeState, Stage
from tenon.node.timeline import result_of
from tenon.record.entries import CommandApproval, Entry, RecordedNode
from tenon.record.removals import blocked_by
from tenon.record.why.answer import MAX_LINES, Answer, FactSource, to_document
from tenon.record.why.mentions import NodeNames, identities, mentions_node
from tenon.record.why.node import (
    BOUGHT,
    CREATED,
    HAPPENED,
    LAUNCHED,
    MOST_REPLACEMENTS,
    REMOVED,
    REPLACED,
    departure_of,
    why_node,
)
from tenon.record.why.node_life import NodeEvent, NodeLife, NodeSources, life_of_result, life_of_state
from tests.tenon.record.why.stories import (
    CLAIM,
    COMMAND,
    COMMAND_END,
    INSTANCE,
    LATER_PLAN,
    NEXT_PLAN,
    NODE,
    PLAN,
    REFUSAL,
    REMOVAL,
    STORY,
    after,
    purchase,
)

IDENTITY = NodeNames(CLAIM, NODE, INSTANCE)
STATE = NodeState(
    claim=ClaimRef(cluster="c", name=CLAIM, uid="u"),
    stage=Stage.LIVE,
    pool="default",
    node_name=NODE,
    instance=Instance(
        id=INSTANCE,
        provider_id=f"aws:///us-west-2a/{INSTANCE}",
        image_id="ami-1",
        instance_type="m5.large",
        zone="us-west-2a",
        capacity_type="spot",
        price=0.04,
        launched_at=after(0.5),
    ),
    explanation=("2 pods: shop/web-1, shop/web-2", "m5.large is the cheapest of 12 types"),
    timeline=(TimelineEntry(at=after(0.5), text="launched"), TimelineEntry(at=after(2), text="live")),
)


def texts(answer: Answer, question: str) -> list[str]:
    return [line.text for section in answer.sections if section.question == question for line in section.lines]


def sources(answer: Answer) -> set[FactSource]:
    return {line.source for section in answer.sections for line in section.lines}


def test_a_node_that_is_gone_is_answered_from_the_record_alone() -> None:
    answer = why_node(NodeSources(IDENTITY, STORY))
    assert answer.headline == (
        f"NodeClaim {CLAIM} ({NODE}, {INSTANCE}) of NodePool default is gone since 2026-11-26 13:02:00 UTC"
    )
    assert texts(answer, BOUGHT) == [
        "batch 1 of provisioner created it for 2 pods: shop/web-1, shop/web-2",
        "planned as m5.large at $0.0400 an hour",
        "m5.large is the cheapest of 12 types; c5.large lacks memory",
    ]
    assert texts(answer, LAUNCHED) == [
        "refused: InsufficientCapacity (spot c5.large us-west-2a): EC2 has no capacity",
        "EC2 launched i-0abc (m5.large, us-west-2a, spot) at $0.0400 an hour, chosen from 12 offerings, in attempt 2, "
        "for provisioner, by workflow nodeclaim/c/default-x1",
    ]
    assert texts(answer, HAPPENED) == ["launched i-0abc (m5.large, us-west-2a, spot)", "force drain requested"]
    assert texts(answer, REMOVED) == [
        "ForceDrain: the disk is slow (OPS-7) (alice with tenon node)",
        "2 pods moved, and it cost $0.0400 in all",
    ]
    assert texts(answer, REPLACED) == [
        "batch 2, planned while it left, created default-x2 (m5.large at $0.0400 an hour) for 1 pod: shop/web-3"
    ]
    assert sources(answer) == {FactSource.RECORD}


def test_a_node_that_is_gone_says_what_its_drain_waited_for() -> None:
    wait = DrainBlock(cause="PodDisruptionBudget shop/web", pods=("shop/a",), pod_count=1, since=after(60), seconds=60)
    line = "its drain was blocked: PodDisruptionBudget shop/web kept pod shop/a for 1m"
    result = NodeClaimResult(claim=CLAIM, pool="default", reason="Expired", drain_blocks=[wait])
    removal = REMOVAL.model_copy(update={"blocked_by": blocked_by(result)})
    by_record = why_node(NodeSources(IDENTITY, [removal]))
    by_temporal = why_node(NodeSources(IDENTITY, life=life_of_result(result)))
    assert texts(by_record, REMOVED)[-1] == texts(by_temporal, REMOVED)[-1] == line


def test_a_node_that_a_command_removes_has_the_command_its_saving_and_its_replacement() -> None:
    answer = why_node(NodeSources(IDENTITY, [*STORY, COMMAND, COMMAND_END]))
    assert texts(answer, REMOVED)[:3] == [
        "command cmd-1 decided to replace 1 node: Underutilized, to save $0.0200 an hour",
        "one t3.small holds its pod",
        "the command saves $0.0150 an hour, and $0.0200 an hour was predicted",
    ]
    assert texts(answer, REPLACED)[0] == (
        "command cmd-1 created default-x4 (m5.large at $0.0400 an hour) for 1 pod: shop/web-1"
    )
    created = why_node(NodeSources(NodeNames("default-x4"), [COMMAND]))
    assert texts(created, CREATED)[0] == (
        f"command cmd-1 (Underutilized) created it in place of {NODE}, for 1 pod: shop/web-1"
    )
    assert texts(created, REMOVED) == []


def test_a_command_that_a_person_approved_says_who_and_why() -> None:
    approval = CommandApproval(answer="approved", by="ann", reason="seen in staging", at=after(61))
    answer = why_node(NodeSources(IDENTITY, [COMMAND, COMMAND_END.model_copy(update={"approval": approval})]))
    assert "ann approved the command: seen in staging" in texts(answer, REMOVED)


def test_only_the_first_nodes_are_named_that_plans_created_while_a_node_left() -> None:
    """In a shortage, EC2 refuses one NodeClaim after the other."""
    plans = [NEXT_PLAN.model_copy(update={"id": f"plan/{n}", "batch": n, "at": after(61 + n / 10)}) for n in range(20)]
    lines = texts(why_node(NodeSources(IDENTITY, [PLAN, *plans, REMOVAL])), REPLACED)
    assert len(lines) == MOST_REPLACEMENTS + 1
    assert lines[-1] == (
        "plans of that time created 15 other NodeClaims for its workloads: `tenon history --kind plan` shows them"
    )
    late = NEXT_PLAN.model_copy(update={"at": after(65)})
    (line,) = texts(why_node(NodeSources(IDENTITY, [PLAN, late, REMOVAL])), REPLACED)
    assert line.startswith("batch 2, planned soon after it left, created default-x2")


def test_only_nodes_for_the_workloads_of_its_pods_came_in_its_place() -> None:
    """Plans of the same minutes are for other pods too."""
    other = NEXT_PLAN.model_copy(update={"id": "plan/9", "purchases": [purchase("default-x9", "batch/job-7d-abcde")]})
    assert texts(why_node(NodeSources(IDENTITY, [*STORY, other])), REPLACED) == texts(
        why_node(NodeSources(IDENTITY, STORY)), REPLACED
    )
    evicted = REMOVAL.model_copy(update={"workloads": ["batch/job-7d"]})
    (line,) = texts(why_node(NodeSources(IDENTITY, [other, evicted])), REPLACED)
    assert line.startswith("batch 2, planned while it left, created default-x9 "), (
        "kube-scheduler had placed such a pod"
    )
    result = NodeClaimResult(claim=CLAIM, pool="default", reason="Expired", asked_at=after(60))
    ended = result.model_copy(
        update={"evicted_workloads": ["batch/job-7d"], "timeline": [TimelineEntry(at=after(62), text="ended")]}
    )
    assert texts(why_node(NodeSources(IDENTITY, [other], life=life_of_result(ended))), REPLACED) == [line]


def test_a_node_claim_whose_launch_was_refused_was_not_bought() -> None:
    ended = REMOVAL.model_copy(update={"facts": RecordedNode(claim=CLAIM, pool="default"), "launched_at": None})
    answer = why_node(NodeSources(NodeNames(CLAIM), [PLAN, REFUSAL, ended]))
    assert answer.headline.endswith("is gone since 2026-11-26 13:02:00 UTC, and never had an instance")
    assert texts(answer, CREATED)[0] == "batch 1 of provisioner created it for 2 pods: shop/web-1, shop/web-2"
    assert "bought" not in str(to_document(answer))


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ({"failure": "EC2 has no capacity"}, "the command was undone: EC2 has no capacity"),
        ({"refused": {CLAIM: "a new pod came"}}, "the node stayed: a new pod came"),
    ],
)
def test_a_command_that_did_not_remove_the_node_says_why(end: dict[str, object], sentence: str) -> None:
    ended = COMMAND_END.model_copy(update={"reached": None, **end})
    answer = why_node(NodeSources(IDENTITY, [COMMAND, ended]))
    assert texts(answer, REMOVED)[-1] == sentence


def test_a_live_node_is_answered_from_its_workflow_if_there_is_no_record() -> None:
    events = [NodeEvent(after(1), "Registered", "the Node joined")]
    answer = why_node(NodeSources(IDENTITY, life=life_of_state(STATE, "nodeclaim/c/default-x1"), events=events))
    assert answer.headline == f"NodeClaim {CLAIM} ({NODE}, {INSTANCE}) of NodePool default is live"
    assert texts(answer, BOUGHT) == ["2 pods: shop/web-1, shop/web-2", "m5.large is the cheapest of 12 types"]
    assert texts(answer, LAUNCHED) == [
        "EC2 launched i-0abc (m5.large, us-west-2a, spot) at $0.0400 an hour, by workflow nodeclaim/c/default-x1"
    ]
    assert texts(answer, HAPPENED) == ["launched", "Registered: the Node joined", "live"]
    assert texts(answer, REMOVED) == texts(answer, REPLACED) == []
    assert sources(answer) == {FactSource.TEMPORAL, FactSource.KUBERNETES}


def test_a_workflow_that_ended_says_who_removed_the_node() -> None:
    leave = Leave(reason="force_drain", detail="the disk is slow", actor="alice", asked_at=after(60))
    state = STATE.model_copy(update={"stage": Stage.ENDED, "leave": leave, "terminated_at": after(62)})
    for life in (life_of_state(state), life_of_result(result_of(state, after(63)))):
        answer = why_node(NodeSources(NodeNames(CLAIM), [NEXT_PLAN], life=life))
        assert answer.headline == f"NodeClaim {CLAIM} ({NODE}, {INSTANCE}) of NodePool default is gone"
        assert texts(answer, REMOVED)[0] == "ForceDrain: the disk is slow (alice)"


def test_without_temporal_and_record_the_node_claim_still_says_why() -> None:
    claim = ClaimRecord.of(
        {
            "metadata": {
                "name": CLAIM,
                "creationTimestamp": "2026-11-26T12:00:00Z",
                "labels": {
                    labels.NODEPOOL: "default",
                    labels.INSTANCE_TYPE: "m5.large",
                    labels.ZONE: "us-west-2a",
                    labels.CAPACITY_TYPE: "spot",
                },
                "annotations": {
                    labels.EXPLANATION: "2 pods: shop/web-1, shop/web-2\nm5.large is the cheapest",
                    labels.DELETED_BECAUSE: '[{"reason": "drain", "detail": "old", "actor": "bob"}]',
                },
            },
            "status": {"providerID": f"aws:///us-west-2a/{INSTANCE}", "nodeName": NODE},
        }
    )
    events = [NodeEvent(after(1), "DisruptionBlocked", "Pod shop/web-1 has do-not-disrupt")]
    answer = why_node(NodeSources(IDENTITY, claim=claim, events=events))
    assert answer.headline == f"NodeClaim {CLAIM} ({NODE}, {INSTANCE}) of NodePool default exists"
    assert texts(answer, BOUGHT) == ["2 pods: shop/web-1, shop/web-2", "m5.large is the cheapest"]
    assert texts(answer, LAUNCHED) == [f"EC2 launched {INSTANCE} (m5.large, us-west-2a, spot)"]
    assert texts(answer, HAPPENED) == ["DisruptionBlocked: Pod shop/web-1 has do-not-disrupt"]
    assert texts(answer, REMOVED) == ["Drain: old (bob)"]
    assert sources(answer) == {FactSource.KUBERNETES}


def test_of_a_node_that_nobody_knows_the_answer_is_empty() -> None:
    assert why_node(NodeSources(NodeNames("other"), STORY[:1])).is_empty


def test_a_name_finds_the_node_claim_by_node_and_instance_the_newest_first() -> None:
    """Names of Nodes follow from addresses, which EC2 gives again."""
    later = REMOVAL.model_copy(
        update={
            "at": after(900),
            "facts": REMOVAL.facts.model_copy(update={"claim": "default-y1", "instance": "i-0def"}),
        }
    )
    entries: list[Entry] = [*STORY, later]
    by_node = identities(NODE, [entry for entry in entries if mentions_node(entry, {NODE})])
    assert by_node == [NodeNames("default-y1", NODE, "i-0def"), IDENTITY]
    assert identities(INSTANCE, entries) == [IDENTITY]
    assert identities(CLAIM, entries) == [IDENTITY]
    assert identities("nobody", entries) == []
    answer = why_node(NodeSources(by_node[0], [later], namesakes=[CLAIM]))
    assert answer.hints == [f"The name was also that of {CLAIM}: ask for these NodeClaims by name"]


def test_plans_of_the_time_in_which_a_node_left_may_be_for_its_pods() -> None:
    departure = departure_of(NodeSources(IDENTITY, STORY))
    assert departure is not None
    assert [entry for entry in STORY if departure.has(entry)] == [NEXT_PLAN]
    assert not departure.has(LATER_PLAN)
    assert not departure.has(PLAN)


def test_a_long_timeline_keeps_its_first_line_and_its_last_ones() -> None:
    lines: list[tuple[datetime, str]] = [(after(minute), f"line {minute}") for minute in range(100)]
    answer = why_node(NodeSources(IDENTITY, life=NodeLife("live", timeline=lines)))
    shown = texts(answer, HAPPENED)
    assert len(shown) == MAX_LINES
    assert (shown[0], shown[1], shown[-1]) == ("line 0", "... 41 more", "line 99")


def test_the_document_has_source_and_time_of_each_line() -> None:
    document = to_document(why_node(NodeSources(IDENTITY, STORY)))
    (first, *_) = document["sections"]
    assert first["question"] == BOUGHT
    assert first["lines"][0]["source"] == "record"
    assert first["lines"][0]["at"] == "2026-11-26T12:00:00Z"
