"""What is said about a pod and about a NodePool."""

from __future__ import annotations

from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.record.entries import Entry, RecordedNode
from tenon.record.room import EntryRoom
from tenon.record.why.answer import Answer, FactSource
from tenon.record.why.mentions import mentions_pod, mentions_pool
from tenon.record.why.node_life import NodeEvent, NodeLife
from tenon.record.why.pod import PENDING, PLANNED, WAITS, WHERE, PodFacts, PodSources, claims_of, why_pod
from tenon.record.why.pool import COMMANDS, CREATED, NO_PLACE, REFUSED, REMOVED, STATE, PoolSources, why_pool
from tenon.scheduling.explanation.waiting import event_message
from tests.tenon.record.why.stories import (
    CLAIM,
    COMMAND,
    COMMAND_END,
    LAUNCH,
    NEXT_PLAN,
    PLAN,
    REFUSAL,
    REMOVAL,
    STORY,
    after,
)

PENDING_POD = PodFacts("Pending", created=after(-1), scheduler_message="0/3 nodes are available")
REASON = PLAN.unschedulable["shop/huge"]


def texts(answer: Answer, question: str) -> list[str]:
    return [line.text for section in answer.sections if section.question == question for line in section.lines]


def line_sources(answer: Answer, question: str) -> list[FactSource]:
    return [line.source for section in answer.sections if section.question == question for line in section.lines]


def test_a_pending_pod_that_fits_nowhere_has_a_sentence_for_each_node_pool() -> None:
    event = NodeEvent(after(5), "FailedScheduling", *event_message(REASON, "shop/huge"))
    expected = [
        "No node is bought for the pod:",
        "NodePool default: needs 5000 CPU; the largest type has 192",
        "NodePool gpu: the pod does not tolerate nvidia.com/gpu",
        "kube-scheduler: 0/3 nodes are available",
    ]
    by_event = why_pod(PodSources("shop/huge", PENDING_POD, [PLAN], [event]))
    assert by_event.headline == "Pod shop/huge is Pending since 2026-11-26 11:59:00 UTC, without a node"
    assert texts(by_event, PENDING) == expected
    assert by_event.hints == ["What each NodePool lacks by now: tenon explain pod shop/huge"]
    assert line_sources(by_event, PENDING)[0] is FactSource.KUBERNETES
    by_record = why_pod(PodSources("shop/huge", PENDING_POD, [PLAN]))
    assert texts(by_record, PENDING) == expected
    assert line_sources(by_record, PENDING)[0] is FactSource.RECORD
    by_simulation = why_pod(PodSources("shop/huge", PENDING_POD, simulated_reason=REASON))
    assert texts(by_simulation, PENDING) == expected
    assert line_sources(by_simulation, PENDING)[0] is FactSource.SIMULATION


def test_a_reason_that_the_record_shortens_keeps_every_node_pool_and_says_where_all_of_it_is() -> None:
    size = Obstacle(ObstacleKind.REQUESTS, "needs 5000 CPU; the largest type has 192; " * 10)
    reason = NoPlace(tuple(Clause(f"pool-{number}", (size,)) for number in range(4)))
    plan = PLAN.model_copy(update={"unschedulable": EntryRoom().pool_reasons({"shop/huge": reason})})
    beginning, *lines = texts(why_pod(PodSources("shop/huge", PENDING_POD, [plan])), PENDING)
    assert beginning == "No node is bought for the pod:"
    assert [line.partition(":")[0] for line in lines[:4]] == [f"NodePool pool-{number}" for number in range(4)]
    assert lines[4] == "the reason is shortened: `tenon explain pod shop/huge` says all of it now"
    (planned,) = texts(why_pod(PodSources("shop/huge", entries=[plan])), PLANNED)
    assert all(f"NodePool pool-{number}: " in planned for number in range(4))


def test_an_event_about_something_else_is_said_as_it_is() -> None:
    message = "EC2 has no spot capacity at all (c6g.large first); 2 NodeClaims found no capacity"
    lines = texts(
        why_pod(PodSources("a/b", PENDING_POD, [], [NodeEvent(after(5), "FailedScheduling", message)])), PENDING
    )
    assert lines == [message, "kube-scheduler: 0/3 nodes are available"]


def test_a_pending_pod_with_a_node_under_way_waits_for_it() -> None:
    life = NodeLife("registering", timeline=[(after(1), "launched i-0abc")])
    answer = why_pod(PodSources("shop/web-1", PENDING_POD, [PLAN, LAUNCH], lives={CLAIM: life}))
    assert texts(answer, PLANNED) == [
        f"batch 1 created NodeClaim {CLAIM} for it: m5.large of NodePool default at $0.0400 an hour"
    ]
    assert texts(answer, WAITS) == [f"NodeClaim {CLAIM} is registering: launched i-0abc"]
    without_record = why_pod(PodSources("shop/web-1", PENDING_POD, claim=CLAIM, lives={CLAIM: life}))
    assert texts(without_record, PLANNED) == [f"NodeClaim {CLAIM} was created for it"]
    assert texts(without_record, WAITS) == texts(answer, WAITS)


def test_a_blocked_node_and_what_the_provisioner_says_are_what_a_pod_waits_for() -> None:
    life = NodeLife("launching", blocked="EC2 refuses launches")
    answer = why_pod(
        PodSources("shop/web-1", PENDING_POD, [PLAN], lives={CLAIM: life}, waits=["it waits for a cheaper node"])
    )
    assert texts(answer, WAITS) == [
        "it waits for a cheaper node",
        f"NodeClaim {CLAIM} is launching: EC2 refuses launches",
    ]


def test_a_simulation_that_finds_a_place_says_what_comes_next() -> None:
    answer = why_pod(PodSources("shop/new", PENDING_POD, simulated_place="buys m5.large of default"))
    assert texts(answer, WAITS) == ["the next plan: buys m5.large of default"]


def test_a_gated_pod_waits_for_its_gates() -> None:
    answer = why_pod(PodSources("shop/gated", PodFacts("Pending", gated=True)))
    assert texts(answer, PENDING) == ["it has scheduling gates, so that nothing places it before they are removed"]


def test_a_running_pod_has_a_place_and_no_reason_to_wait() -> None:
    pod = PodFacts("Running", node="other", created=after(60), bound=after(90))
    answer = why_pod(PodSources("shop/web-4", pod, [NEXT_PLAN], [NodeEvent(after(1), "FailedScheduling", "old")]))
    assert answer.headline == "Pod shop/web-4 is Running on other"
    assert texts(answer, WHERE) == ["created", "bound to other", "now Running, on other"]
    (where, *_) = answer.sections
    assert [line.at for line in where.lines] == [after(60), after(90), None], "it may run since much later"
    assert texts(answer, PLANNED) == ["batch 2 placed it on other, which existed"]
    assert texts(answer, PENDING) == texts(answer, WAITS) == []


def test_a_pod_that_is_gone_is_answered_from_the_record() -> None:
    entries: list[Entry] = [entry for entry in [*STORY, COMMAND] if mentions_pod(entry, "shop/web-1")]
    assert entries == [PLAN, COMMAND]
    answer = why_pod(PodSources("shop/web-1", entries=entries))
    assert answer.headline == "Pod shop/web-1 does not exist any more"
    assert texts(answer, PLANNED)[-1] == "command cmd-1 (Underutilized) moves it to NodeClaim default-x4"
    assert claims_of("shop/web-1", entries) == ["default-x4", CLAIM]
    assert why_pod(PodSources("shop/nobody")).is_empty


def test_a_node_pool_says_what_was_created_refused_and_lost() -> None:
    entries: list[Entry] = [entry for entry in [*STORY, COMMAND, COMMAND_END] if mentions_pool(entry, "default")]
    answer = why_pool(
        PoolSources(
            "default", exists=True, conditions=["NodeClassReady is False: no subnets"], nodes=2, entries=entries
        )
    )
    assert answer.headline == "NodePool default has 2 NodeClaims"
    assert texts(answer, STATE) == ["NodeClassReady is False: no subnets"]
    assert texts(answer, CREATED)[0] == (
        f"batch 1 created {CLAIM}, m5.large at $0.0400 an hour, for 2 pods (shop/web-1, shop/web-2); "
        "EC2 launched i-0abc"
    )
    assert len(texts(answer, CREATED)) == 4
    refused = why_pool(PoolSources("default", exists=True, entries=[PLAN, REFUSAL]))
    assert texts(refused, CREATED)[0].endswith("; EC2 refused to launch it"), "it was created, and nothing was bought"
    assert texts(answer, NO_PLACE) == ["shop/huge: NodePool default: needs 5000 CPU; the largest type has 192"]
    assert texts(answer, REFUSED) == ["InsufficientCapacity: 1 refusal; the last: EC2 has no capacity"]
    assert texts(answer, REMOVED) == [
        "ForceDrain: 1 node, which cost $0.0400 in all",
        "ip-10-0-0-1.ec2.internal left, ForceDrain: the disk is slow (OPS-7) (alice with tenon node)",
    ]
    assert texts(answer, COMMANDS) == [
        "command cmd-1: replace ip-10-0-0-1.ec2.internal, Underutilized, to save $0.0200 an hour"
    ]


def test_claims_that_never_had_an_instance_are_no_removed_nodes() -> None:
    without = {"launched_at": None, "facts": RecordedNode(claim="default-x9", pool="default")}
    entries: list[Entry] = [REMOVAL, REMOVAL.model_copy(update=without)]
    lines = texts(why_pool(PoolSources("default", exists=True, entries=entries)), REMOVED)
    assert lines[:2] == [
        "ForceDrain: 1 node, which cost $0.0400 in all",
        "1 NodeClaim ended before launch, which cost nothing",
    ]
    assert len(lines) == 3


def test_a_node_pool_without_nodes_and_entries_is_known_if_it_exists() -> None:
    assert why_pool(PoolSources("empty", exists=True)).headline == "NodePool empty has 0 NodeClaims"
    assert why_pool(PoolSources("gone")).headline == ""


def test_without_kubernetes_nothing_is_said_to_be_gone() -> None:
    answer = why_pod(PodSources("shop/huge", entries=[PLAN], kubernetes_answered=False))
    assert answer.headline == "Kubernetes did not answer, so it is not known whether pod shop/huge exists"
    assert any(str(REASON) in line.text for section in answer.sections for line in section.lines), (
        "the record has the reason"
    )
    pool = why_pool(PoolSources("default", entries=[PLAN], kubernetes_answered=False))
    assert pool.headline == "Kubernetes did not answer, so it is not known whether NodePool default exists"
