"""What the record answers about a node, a pod, a NodePool and a command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.kube.timestamps import time_text
from tenon.messages.explanation import Explanation
from tenon.record.entries import (
    BlockedBy,
    CommandApproval,
    CommandCandidate,
    CommandEndEntry,
    CommandEntry,
    CostEntry,
    CostRow,
    Entry,
    EntryKind,
    LaunchEntry,
    PlanEntry,
    RecordedNode,
    RecordedPurchase,
    RefusalEntry,
    RemovalEntry,
)
from tenon.record.entry_sentences import sentence, total_price, why
from tenon.record.history import EntryQuery, Subject, answers

AT = datetime(2026, 11, 27, 6, 0, tzinfo=UTC)


def facts(number: int, pool: str = "default") -> RecordedNode:
    return RecordedNode(
        claim=f"{pool}-{number}",
        pool=pool,
        node=f"ip-{number}",
        instance=f"i-{number}",
        instance_type="m5.large",
        zone="us-west-2a",
        capacity_type="spot",
        price=0.096,
    )


BOUGHT = RecordedPurchase(
    claim="default-1",
    pool="default",
    instance_type="m5.large",
    price=0.096,
    pods=["shop/web-1"],
    pod_count=1,
    why=Explanation(choice="m5.large in us-west-2a: the cheapest of 12"),
)
PLAN = PlanEntry(
    id="plan",
    at=AT,
    cluster="prod",
    batch=7,
    pods=3,
    purchases=[BOUGHT],
    purchase_count=1,
    on_existing={"ip-9": ["shop/web-2"]},
    placed_count=1,
    unschedulable={
        "shop/gpu": NoPlace.in_pool("default", Obstacle(ObstacleKind.REQUESTS, "no type has nvidia.com/gpu"))
    },
    unschedulable_count=1,
)
REFUSAL = RefusalEntry(
    id="refusal",
    at=AT,
    cluster="prod",
    claim="default-1",
    pool="default",
    code="InsufficientCapacity",
    message="no capacity",
    offerings=["spot m5.large us-west-2b"],
)
LAUNCH = LaunchEntry(id="launch", at=AT, cluster="prod", facts=facts(1).model_copy(update={"node": ""}))
COMMAND = CommandEntry(
    id="command",
    at=AT,
    cluster="prod",
    command="underutilized-abc",
    reason="Underutilized",
    candidates=[CommandCandidate(claim="default-1", pool="default", node="ip-1", price=0.096)],
    replacements=[RecordedPurchase(claim="default-2", pool="default", instance_type="m5.medium", price=0.048)],
    predicted=0.048,
)
END = CommandEndEntry(
    id="end",
    at=AT,
    cluster="prod",
    command="underutilized-abc",
    reason="Underutilized",
    accepted=["default-1"],
    replacements=["default-2"],
    predicted=0.048,
    reached=0.04,
)
APPROVAL = CommandApproval(answer="approved", by="ann", reason="seen in staging", at=AT, seconds=60)
REMOVAL = RemovalEntry(
    id="removal",
    at=AT + timedelta(hours=3),
    cluster="prod",
    actor="command underutilized-abc",
    facts=facts(1),
    reason="Underutilized",
    launched_at=AT,
    terminated_at=AT + timedelta(hours=2, minutes=30),
    pods=4,
    cost=0.24,
)
WAIT = BlockedBy(cause="PodDisruptionBudget shop/web", pods=["shop/web-1"], pod_count=1, since=AT, seconds=12_000)
OTHER = RemovalEntry(
    id="other",
    at=AT,
    cluster="prod",
    facts=facts(5, "batch"),
    reason="Expired",
    detail="after 30d",
    actor="its workflow",
)
UNLAUNCHED = OTHER.model_copy(update={"id": "unlaunched", "facts": RecordedNode(claim="gpu-1", pool="gpu")})
ENTRIES: list[Entry] = [PLAN, REFUSAL, LAUNCH, COMMAND, END, REMOVAL, OTHER]


def ids(question: EntryQuery, subject: Subject | None = None) -> list[str]:
    return [entry.id for entry in answers(question, ENTRIES, subject)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (EntryQuery(), ["plan", "refusal", "launch", "command", "end", "removal", "other"]),
        (EntryQuery("default-1"), ["plan", "refusal", "launch", "command", "end", "removal"]),
        (EntryQuery("i-1"), ["launch", "removal"]),
        (EntryQuery("ip-9"), ["plan"]),
        (EntryQuery("underutilized-abc"), ["command", "end", "removal"]),
        (EntryQuery("batch"), ["other"]),
        (EntryQuery("shop/gpu"), ["plan"]),
        (EntryQuery("gpu"), ["plan"]),
        (EntryQuery("nothing"), []),
        (EntryQuery(kinds=frozenset({EntryKind.REMOVAL})), ["removal", "other"]),
        (EntryQuery(reason="underutilized"), ["command", "end", "removal"]),
        (EntryQuery(reason="insufficient-capacity"), ["refusal"]),
        (EntryQuery(pool="batch"), ["other"]),
        (EntryQuery("default-1", pool="batch"), []),
    ],
    ids=str,
)
def test_a_question_gets_the_entries_that_answer_it(question: EntryQuery, expected: list[str]) -> None:
    assert ids(question) == expected


@pytest.mark.parametrize(
    ("question", "entry", "left_out"),
    [
        (EntryQuery(), UNLAUNCHED, True),
        (EntryQuery(kinds=frozenset({EntryKind.REMOVAL})), UNLAUNCHED, True),
        (EntryQuery("gpu"), UNLAUNCHED, True),
        (EntryQuery("gpu-1"), UNLAUNCHED, False),
        (EntryQuery(unlaunched=True), UNLAUNCHED, False),
        (EntryQuery(), REMOVAL, False),
        (EntryQuery(), REFUSAL, False),
    ],
)
def test_a_claim_without_an_instance_is_no_removed_node(question: EntryQuery, entry: Entry, left_out: bool) -> None:
    """In a shortage, each probe of an offering is one."""
    subject = Subject(question.name) if question.name else None
    assert question.leaves_out(entry, subject) is left_out


@pytest.mark.parametrize("name", ["shop/web-1", "web-1"])
def test_the_history_of_a_pod_has_the_node_that_was_bought_for_it(name: str) -> None:
    """Its plan names the NodeClaim, whose launch and removal follow."""
    assert ids(EntryQuery(name)) == ["plan", "refusal", "launch", "command", "end", "removal"]
    assert ids(EntryQuery(name, kinds=frozenset({EntryKind.REMOVAL}))) == ["removal"], "also if the plan is not shown"


def test_a_pod_on_a_node_that_existed_has_only_its_plan() -> None:
    assert ids(EntryQuery("shop/web-2")) == ["plan"]


def test_the_name_of_a_node_is_in_its_last_entry_and_finds_the_first_ones() -> None:
    subject = Subject("ip-1")
    for entry in ENTRIES:
        subject.learn(entry)
    assert ids(EntryQuery("ip-1"), subject) == ["plan", "refusal", "launch", "command", "end", "removal"]


@pytest.mark.parametrize(
    ("entry", "name", "expected"),
    [
        (PLAN, "web-1", "web-1 is planned for a new node: default-1 (m5.large, $0.0960 an hour)"),
        (PLAN, "shop/web-2", "shop/web-2 gets room on ip-9"),
        (PLAN, "shop/gpu", "shop/gpu fits nowhere: NodePool default: no type has nvidia.com/gpu"),
        (
            PLAN,
            "",
            "3 pods; creates default-1 (m5.large, $0.0960 an hour); 1 to nodes that exist: ip-9; "
            "1 pod without a place: shop/gpu: NodePool default: no type has nvidia.com/gpu",
        ),
        (REFUSAL, "", "no capacity (spot m5.large us-west-2b)"),
        (LAUNCH, "", "i-1 m5.large us-west-2a spot $0.0960 an hour"),
        (COMMAND, "", "removes ip-1; creates default-2 (m5.medium, $0.0480 an hour); is to save $0.0480 an hour"),
        (END, "", "1 node left; saves $0.0400 an hour of $0.0480 predicted"),
        (END.model_copy(update={"failure": "a pod came"}), "", "undone: a pod came"),
        (
            END.model_copy(update={"approval": APPROVAL}),
            "",
            "ann approved it: seen in staging; 1 node left; saves $0.0400 an hour of $0.0480 predicted",
        ),
        (
            END.model_copy(update={"approval": APPROVAL, "failure": "it saves nothing any more"}),
            "",
            "ann approved it: seen in staging; undone: it saves nothing any more",
        ),
        (
            COMMAND.model_copy(update={"approve_until": AT}),
            "",
            "removes ip-1; creates default-2 (m5.medium, $0.0480 an hour); is to save $0.0480 an hour; "
            f"waits for approval until {time_text(AT)}",
        ),
        (REMOVAL, "", "m5.large, ran 2h30m, cost $0.2400, 4 pods evicted"),
        (
            REMOVAL.model_copy(update={"blocked_by": [WAIT, WAIT.model_copy(update={"seconds": 5.0})]}),
            "",
            "m5.large, ran 2h30m, cost $0.2400, 4 pods evicted, "
            "its drain waited 3h20m for PodDisruptionBudget shop/web and 1 more",
        ),
        (UNLAUNCHED, "", "ended before it had an instance"),
    ],
    ids=lambda value: value.id if isinstance(value, PlanEntry | RemovalEntry) else None,
)
def test_an_entry_is_said_in_one_line(entry: Entry, name: str, expected: str) -> None:
    assert sentence(entry, name) == expected


def test_why_is_the_reason_with_its_detail_or_the_choice_of_the_type() -> None:
    assert why(OTHER) == "Expired: after 30d"
    assert why(PLAN) == "m5.large in us-west-2a: the cheapest of 12"
    assert why(REFUSAL) == "InsufficientCapacity"
    only_type = "m5.large in us-west-2a (on-demand): the only type that holds 1 CPU"
    explanation = Explanation(pods="1 pod: shop/web-1", types="cheapest: m5.large", choice=only_type)
    assert why(LAUNCH.model_copy(update={"why": explanation})) == only_type
    replaces = Explanation(occasion="command c-1 (Drifted)", others=("it says: the cheapest of all",))
    assert why(LAUNCH.model_copy(update={"why": replaces})) == "command c-1 (Drifted)", "no reader parses sentences"


def test_what_was_bought_is_added_up_once_if_launches_or_plans_are_asked_for() -> None:
    unpriced = LAUNCH.model_copy(update={"facts": LAUNCH.facts.model_copy(update={"price": 0.0})})
    entries: list[Entry] = [PLAN, REFUSAL, LAUNCH, unpriced, LAUNCH]
    launched = "3 nodes launched, $0.1920 an hour in all; the price of 1 is not known"
    assert total_price(entries, {"launch"}) == launched
    assert total_price(entries, {"launch", "plan"}) == launched
    assert total_price([PLAN, PLAN], {"plan"}) == "2 plans created 2 NodeClaims, planned at $0.1920 an hour in all"
    assert total_price(entries, {"removal"}) == ""
    assert total_price(entries, set()) == ""


def test_who_used_the_nodes_is_no_part_of_their_history_unless_it_is_asked_for() -> None:
    row = CostRow(pool="default", of="pods", namespace="shop", cost=0.5)
    used = CostEntry(
        id="cost", at=AT, cluster="prod", since=AT - timedelta(minutes=15), samples=15, rows=[row], cost=0.5
    )
    assert list(answers(EntryQuery(name="default"), [used, PLAN])) == [PLAN]
    assert list(answers(EntryQuery(), [used])) == []
    assert list(answers(EntryQuery(kinds=frozenset({"cost"}), pool="default"), [used, PLAN])) == [used]
    assert (sentence(used), why(used)) == ("$0.5000 since 2026-11-27 05:45:00 UTC, of 1 NodePool", "")


def test_a_wide_line_has_all_names_and_a_short_one_says_how_many_it_leaves_out() -> None:
    names = [f"spot m5.large us-west-2{letter}" for letter in "abcdefgh"]
    refusal = REFUSAL.model_copy(update={"offerings": names, "offering_count": 20})
    assert sentence(refusal).endswith(
        "(spot m5.large us-west-2a, spot m5.large us-west-2b, spot m5.large us-west-2c and 17 more)"
    )
    assert sentence(refusal, is_wide=True).endswith("spot m5.large us-west-2h and 12 more)")
    end = END.model_copy(update={"refused": {f"default-{n}": "a pod came" for n in range(5)}})
    assert "default-2 stays: a pod came; and 2 more" in sentence(end)
    assert "default-4 stays: a pod came" in sentence(end, is_wide=True)
    assert "more" not in sentence(end, is_wide=True)
    plan = PLAN.model_copy(
        update={"unschedulable": {"shop/a": "no room", "shop/b": "no GPU"}, "unschedulable_count": 2}
    )
    assert sentence(plan).endswith("2 pods without a place: shop/a: no room; and 1 more")
    assert sentence(plan, is_wide=True).endswith("2 pods without a place: shop/a: no room; shop/b: no GPU")


def test_a_command_says_why_it_began() -> None:
    entry = COMMAND.model_copy(update={"why": "NodeRollout careful replaces it by version 1: a new version\nmore"})
    assert why(entry) == f"{COMMAND.reason}: NodeRollout careful replaces it by version 1: a new version"
