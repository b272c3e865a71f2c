"""What Temporal's UI says of the provisioner: its batches by NodeClaim, and what EC2 refuses until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from tenon.apis.reasons import Reason
from tenon.ec2.refusals.unavailable import shortages
from tenon.evolve import evolve
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.messages.provisioning import (
    BatchOutcome,
    ClusterCost,
    CostPart,
    LaunchBreaker,
    PendingClause,
    PendingPods,
    PlanResult,
    PurchasePause,
    ShortageWait,
    UnavailableTypes,
    UnlaunchedClaims,
)
from tenon.provisioning import batch_lines, page
from tenon.provisioning.pending_pods import bounded, without_place, without_placed_pods

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=3)
PLAN = PlanResult(batch=7, pods=5, claims=["web-1", "web-2"], price=0.25, placed_on_existing=1, unschedulable=2)


def details(lines: list[BatchOutcome], *, full: bool = False) -> str:
    number = 200 if full else 1
    refused = [
        UnavailableTypes(capacity_type="spot", zone="us-west-2a", instance_types=[f"m{5 + n}.large"], until=LATER)
        for n in range(number)
    ]
    breaker = LaunchBreaker(
        pool="web", reason="Unauthorized", message="not allowed " * 40, opened_at=NOW, next_probe_at=LATER
    )
    wait = ShortageWait(
        pool="web", pods=3, instance_type="m5.24xlarge", price=4.0, usual_type="m5.large", usual_price=0.1, until=LATER
    )
    pause = PurchasePause(group="g", nodes=2, until=LATER, pods=["shop/db-0"], waiting=1, refusal="no " * 100)
    clauses = ["NodePool web: EC2 refuses 3 spot offerings (c1.large in us-west-2a)"] * (9 if full else 1)
    pods = [f"a-namespace-with-a-name/a-pod-with-a-long-name-{n}" for n in range(3)] if full else ["shop/web-1"]
    why = "; ".join(clauses)
    texts = [PendingClause(pool="web", kind=ObstacleKind.CAPACITY, waits=True, text=clause) for clause in clauses]
    pending = [PendingPods(why=why, clauses=texts, pods=pods, count=len(pods)) for _ in range(min(number, 10))]
    plan = PlanResult(waits=[wait] * number, pending=pending, pending_left_out=number - 1)
    part = CostPart(name="a-name-of-a-nodepool-or-namespace-" + "x" * 29, price=0.1)
    cost = evolve(COST, pools=[part] * 5, namespaces=[part] * 5) if full else None
    return page.current_details(
        "c", "waits for pods", lines, refused, [breaker] * number, plan, [pause] * number, NOW, cost
    )


def test_a_batch_names_its_nodeclaims_its_price_and_the_pods_that_fit_nowhere() -> None:
    (outcome,) = batch_lines.remembered([], PLAN, 7, NOW)
    line = batch_lines.batch_line(outcome)
    assert line.startswith(
        "`2026-11-21 12:00:00`, 5 pods: created web-1, web-2, planned at 0.2500 USD/h; 1 pod on nodes"
    )
    assert line.endswith("2 pods fit nowhere")
    assert "last batch: 2026-11-21 12:00:00, 5 pods: created web-1" in page.headline("c", [outcome])


def refused(*claims: str, batch: int = 7, reason: str = Reason.INSUFFICIENT_CAPACITY) -> UnlaunchedClaims:
    return UnlaunchedClaims(batch=batch, reason=reason, claims=list(claims))


def test_a_batch_does_not_count_nodeclaims_that_ec2_refused_as_bought() -> None:
    """Also if the same refusal is reported again."""
    plan = evolve(PLAN, claims=["web-1", "web-2", "web-3"], claim_prices=[0.15, 0.1, 0.05], price=0.3, unschedulable=0)
    other = batch_lines.remembered([], PLAN, 6, NOW)
    outcomes = batch_lines.remembered(other, plan, 7, NOW)
    for _ in range(2):
        outcomes = batch_lines.with_unlaunched(outcomes, [refused("web-1"), refused("web-3", reason="launch_timeout")])
    first, last = map(batch_lines.batch_line, outcomes)
    assert last.endswith(
        ": created web-2, planned at 0.1000 USD/h; refused: no capacity for web-1; no instance for web-3: "
        "LaunchTimeout; 1 pod on nodes that exist or start"
    )
    assert "refused" not in first
    (_, outcome) = batch_lines.with_unlaunched(outcomes, [refused("web-2")])
    line = batch_lines.batch_line(outcome)
    assert "5 pods: refused: no capacity for web-1, web-2; no instance" in line
    assert "created" not in line


def test_the_price_of_a_large_batch_with_refusals_says_what_it_includes() -> None:
    """The workflow remembers the prices of the first NodeClaims only."""
    names = [f"web-{number}" for number in range(batch_lines.REMEMBERED_CLAIMS + 1)]
    plan = PlanResult(pods=101, claims=names, claim_prices=[0.1] * len(names), price=10.1)
    outcomes = batch_lines.remembered([], plan, 7, NOW)
    (outcome,) = batch_lines.with_unlaunched(outcomes, [refused("web-0", names[-1])])
    line = batch_lines.batch_line(outcome)
    assert "created web-1, web-2, web-3, web-4, web-5 and 94 more, planned at 10.1000 USD/h with those that" in line
    (outcome,) = batch_lines.with_unlaunched(outcomes, [refused("web-0")])
    assert "web-5 and 95 more, planned at 10.0000 USD/h; refused" in batch_lines.batch_line(outcome)


def test_a_large_batch_whose_first_nodeclaims_were_all_refused_says_how_many_others_were_created() -> None:
    names = [f"web-{number}" for number in range(batch_lines.REMEMBERED_CLAIMS + 2)]
    plan = PlanResult(pods=102, claims=names, claim_prices=[0.1] * len(names), price=10.2)
    outcomes = batch_lines.remembered([], plan, 7, NOW)
    (outcome,) = batch_lines.with_unlaunched(outcomes, [refused(*names[: batch_lines.REMEMBERED_CLAIMS])])
    line = batch_lines.batch_line(outcome)
    assert "102 pods: created 2 NodeClaims, planned at 0.2000 USD/h; refused: no capacity for web-0" in line


def test_a_batch_remembers_so_many_refused_nodeclaims_that_ten_batches_fit_into_a_message() -> None:
    names = [f"web-{number}" for number in range(3000)]
    outcomes = batch_lines.remembered([], PlanResult(pods=3000, claims=names, price=300.0), 7, NOW)
    for first in range(0, 3000, 500):
        outcomes = batch_lines.with_unlaunched(outcomes, [refused(*names[first : first + 500])])
    (outcome,) = outcomes
    assert len(outcome.model_dump_json()) < 50_000
    assert "and at least 995 more" in batch_lines.batch_line(outcome)


def test_a_batch_whose_first_answer_was_lost_claims_no_price_and_no_number_of_pods() -> None:
    """A plan that is made again finds its NodeClaims, but not what they were planned for."""
    outcomes = batch_lines.remembered([], PlanResult(claims=["web-1", "web-2"]), 7, NOW)
    (outcome,) = batch_lines.with_unlaunched(outcomes, [refused("web-2")])
    line = "`2026-11-21 12:00:00`: created web-1; refused: no capacity for web-2"
    assert batch_lines.batch_line(outcome) == line


def test_batches_that_buy_nothing_push_no_purchase_off_the_page() -> None:
    """Pods that fit nowhere are planned again every few seconds."""
    futile = PlanResult(pods=2, unschedulable=2)
    lines = batch_lines.remembered([], PLAN, 1, NOW)
    for number in range(2, 32):
        plan = evolve(futile, pods=2 + number % 15, unschedulable=2 + number % 15)
        lines = batch_lines.remembered(lines, plan, number, NOW + timedelta(minutes=number))
    assert len(lines) == batch_lines.REMEMBERED
    assert "created web-1" in batch_lines.batch_line(lines[0])
    assert lines[-1].batch == 31, "the last batch is the last line, whatever it did"
    for number in range(32, 52):
        lines = batch_lines.remembered(lines, PLAN, number, NOW)
    lines = batch_lines.remembered(lines, futile, 52, NOW)
    assert len(lines) == batch_lines.REMEMBERED
    assert [line.bought for line in lines] == [True] * (batch_lines.REMEMBERED - 1) + [False]


def test_batches_of_which_ec2_refused_all_push_no_purchase_off_the_page() -> None:
    """Tenon asks again for pods that EC2 has no capacity for, each time with a NodeClaim of its own."""
    lines = batch_lines.remembered([], PLAN, 1, NOW)
    for number in range(2, 22):
        claim = f"spot-{number}"
        lines = batch_lines.remembered(lines, PlanResult(pods=1, claims=[claim], price=0.1), number, NOW)
        lines = batch_lines.with_unlaunched(lines, [refused(claim, batch=number)])
    assert len(lines) == batch_lines.REMEMBERED
    assert "created web-1, web-2" in batch_lines.batch_line(lines[0])
    assert "no capacity for spot-21" in batch_lines.batch_line(lines[-1])


def test_a_batch_that_bought_nothing_takes_the_place_of_the_one_with_the_same_outcome() -> None:
    futile = PlanResult(pods=2, unschedulable=2)
    lines = batch_lines.remembered([], futile, 1, NOW)
    lines = batch_lines.remembered(lines, PLAN, 2, NOW)
    lines = batch_lines.remembered(lines, futile, 3, NOW + timedelta(minutes=1))
    lines = batch_lines.remembered(lines, PLAN, 4, NOW + timedelta(minutes=2))
    assert [line.batch for line in lines] == [2, 3, 4]


def test_the_page_says_what_ec2_refuses_until_when_and_which_pods_wait() -> None:
    shown = details(batch_lines.remembered([], PLAN, 7, NOW))
    assert "**Now:** it waits for pods" in shown
    assert "#### Pods without a node\n\n- No node is bought for 1 pod (shop/web-1): NodePool web: EC2" in shown
    assert "for other reasons" not in shown
    assert "1 spot offering" in shown
    assert "next attempt at 2026-11-21 12:03:00 UTC" in shown
    assert "NodePool web: its launches are held back because EC2 refuses them: Unauthorized" in shown
    assert "wait for a cheaper node: NodePool web: EC2 refused m5.large at 0.1000 USD/h, and the cheapest" in shown
    assert "node left is m5.24xlarge at 4.0000 USD: next attempt at 2026-11-21 12:03:00 UTC" in shown
    assert "1 pod (shop/db-0) until 2026-11-21 12:03:00 UTC" in shown
    assert "#### Last batches (UTC)\n\n- `2026-11-21 12:00:00`, 5 pods: created web-1" in shown
    assert "$" not in shown


def test_the_page_fits_into_a_url_in_a_great_shortage() -> None:
    lines: list[BatchOutcome] = []
    for number in range(20):
        lines = batch_lines.remembered(lines, PLAN, number, NOW)
    shown = details(lines, full=True)
    assert "- and 195 more" in shown
    assert "- and 5 more\n- and 199 pods for other reasons: `tenon pods --pending`" in shown
    assert len(quote(shown)) < 8000


def of_zone(zone: str, number: int, capacity_type: str = "spot") -> UnavailableTypes:
    names = [f"c{n}.large" for n in range(number)]
    return UnavailableTypes(capacity_type=capacity_type, zone=zone, instance_types=names, until=LATER)


def test_much_that_ec2_refuses_is_listed_by_zone_with_the_first_types() -> None:
    refused = [of_zone("us-west-2a", 61), of_zone("us-west-2b", 61), of_zone("us-west-2c", 4)]
    shown = page.current_details("c", "waits", [], refused, [], None, [], NOW)
    assert (
        "#### What EC2 refuses\n\n"
        "- EC2 refuses 126 spot offerings: next attempt at 2026-11-21 12:03:00 UTC\\\n"
        "  in us-west-2a and us-west-2b: c0.large, c1.large, c10.large and 58 more\\\n"
        "  in us-west-2c: c0.large, c1.large, c2.large and 1 more\n"
        "\n"
        "What resolves it: do nothing if the pods can wait: Tenon asks EC2 again by itself; allow more instance "
        "types, zones or on-demand capacity in the NodePool: `tenon explain nodepool NAME` says what it may buy\n"
    ) in shown


def test_few_instance_types_in_many_zones_are_one_sentence() -> None:
    refused = [of_zone(f"us-west-2{zone}", 3) for zone in "abcdefgh"]
    shown = page.current_details("c", "waits", [], [*refused, of_zone("", 4, "on-demand")], [], None, [], NOW)
    assert "- EC2 refuses 24 spot offerings (c0.large in 8 zones, c1.large in 8 zones, c2.large in 8 zones): " in shown
    attempt = "next attempt at 2026-11-21 12:03:00 UTC"
    assert f"- EC2 refuses 4 on-demand offerings: {attempt}\\\n  in every zone: c0" in shown


def test_the_page_and_the_list_of_blocked_nodes_say_the_same_of_an_attempt_that_is_due() -> None:
    """Not the time at which the page was written, which is in the past for its reader."""
    refused = UnavailableTypes(
        capacity_type="spot",
        zone="us-west-2a",
        instance_types=["m5.large"],
        until=LATER,
        refused_at=NOW - timedelta(minutes=4),
        refusals=2,
    )
    (in_list,) = shortages([refused], NOW)
    shown = page.current_details("c", "waits", [], [refused], [], None, [], NOW)
    assert f"- {in_list.sentence}\n" in shown
    assert in_list.sentence.endswith(
        ", 2 times in a row so far: the next attempt is due, with the next NodeClaim that needs one"
    )


def test_pods_of_one_cause_are_one_line_without_times_of_an_earlier_plan() -> None:
    """They may have been planned at different times. What EC2 refuses has the time of the next attempt by now."""
    taint = Clause("gpu", (Obstacle(ObstacleKind.TAINTS, "its taint a is not tolerated"),))
    reasons = {
        f"shop/{minute}-{number}": NoPlace(
            (Clause("web", (Obstacle(ObstacleKind.CAPACITY, "EC2 refuses all spot capacity", again),)), taint)
        )
        for minute, again in enumerate((NOW - timedelta(minutes=1), NOW + timedelta(seconds=30)))
        for number in range(2)
    }
    pending = without_place(reasons)
    shown = page.current_details("c", "waits", [], [], [], PlanResult(pending=pending), [], NOW)
    assert (
        "- No node is bought for 4 pods (shop/0-0, shop/0-1, shop/1-0 and 1 more):\\\n"
        "  NodePool web: EC2 refuses all spot capacity\\\n"
        "  NodePool gpu: its taint a is not tolerated\\\n"
        "  What resolves it: do nothing if the pods can wait: Tenon asks EC2 again by itself; allow more instance "
        "types, zones or capacity types in a NodePool: `tenon explain pod shop/0-0` says what each NodePool lacks\n"
    ) in shown
    assert "next attempt" not in shown


def test_a_list_of_nodepools_has_as_many_as_fit_and_no_bracket_that_looks_like_a_link() -> None:
    text = (
        "no available instance type of the pool meets node.kubernetes.io/instance-type In [p9.huge] (available: a, b)"
    )
    obstacle = Obstacle(ObstacleKind.REQUIREMENTS, text)
    few = without_place({"shop/a": NoPlace(tuple(Clause(f"web-{n}", (obstacle,)) for n in range(2)))})
    shown = page.current_details("c", "waits", [], [], [], PlanResult(pending=few), [], NOW)
    line = text.replace("[p9.huge]", "p9.huge")
    assert f"  NodePool web-0: {line}\\\n  NodePool web-1: {line}\\\n  What resolves" in shown
    many = without_place({"shop/a": NoPlace(tuple(Clause(f"web-{n}", (obstacle,)) for n in range(30)))})
    shown = page.current_details("c", "waits", [], [], [], PlanResult(pending=many), [], NOW)
    assert "  NodePool web-7: " in shown
    assert "  NodePool web-8: " not in shown
    assert "  and more: `tenon pods --pending`\\\n  What resolves" in shown


def unplaced(obstacle: Obstacle, *pods: str) -> dict[str, NoPlace]:
    return {pod: NoPlace.in_pool("web", obstacle) for pod in pods}


def test_each_kind_of_pods_has_its_own_remedy_and_has_it_once() -> None:
    """A taint and what EC2 refuses are resolved otherwise, and a second taint as the first."""
    reasons = {
        **unplaced(Obstacle(ObstacleKind.TAINTS, "its taint a is not tolerated"), "shop/a", "shop/b", "shop/c"),
        **unplaced(Obstacle(ObstacleKind.CAPACITY, "EC2 refuses all spot capacity"), "etl/a", "etl/b"),
        **unplaced(Obstacle(ObstacleKind.TAINTS, "its taint b is not tolerated"), "shop/z"),
    }
    pending, _ = bounded(without_place(reasons))
    shown = page.current_details("c", "waits", [], [], [], PlanResult(pending=pending), [], NOW)
    assert (
        "- No node is bought for 3 pods (shop/a, shop/b, shop/c): NodePool web: its taint a is not tolerated\\\n"
        "  What resolves it: change the pods or a NodePool that should take them: `tenon explain pod shop/a` says what "
        "each NodePool lacks; try a changed NodePool before you apply it: `tenon simulate --live -f nodepool.yaml`\n"
        "- No node is bought for 2 pods (etl/a, etl/b): NodePool web: EC2 refuses all spot capacity\\\n"
        "  What resolves it: do nothing if the pods can wait: Tenon asks EC2 again by itself; allow more instance "
        "types, zones or capacity types in a NodePool: `tenon explain pod etl/a` says what each NodePool lacks\n"
        "- No node is bought for 1 pod (shop/z): NodePool web: its taint b is not tolerated\n"
    ) in shown


def test_pods_that_have_a_place_need_no_remedy() -> None:
    placed = PendingPods(why="web-1 (m5.large) was created for it", pods=["shop/a"], count=1, has_place=True)
    shown = page.current_details("c", "waits", [], [], [], PlanResult(pending=[placed]), [], NOW)
    assert "- A node is there or on its way for 1 pod (shop/a): web-1" in shown
    assert "What resolves it" not in shown


def test_a_nodeclaim_that_ec2_refused_is_no_node_on_its_way() -> None:
    """The plan before has it as a place until the next batch, which plans its pods again."""
    groups = [
        PendingPods(why=f"{name} (m5.large) was created for it", pods=[pod], count=1, has_place=True, claim=name)
        for name, pod in (("web-1", "shop/a"), ("web-2", "shop/b"), ("web-3", "shop/c"))
    ]
    plan = evolve(PLAN, claims=["web-1", "web-2", "web-3"], pending=groups)
    timeout = refused("web-3", reason=Reason.LAUNCH_TIMEOUT)
    lines = batch_lines.with_unlaunched(batch_lines.remembered([], plan, 7, NOW), [refused("web-1"), timeout])
    shown = page.current_details("c", "waits", lines, [], [], plan, [], NOW)
    assert "refused: no capacity for web-1" in shown
    assert (
        "- The next batch plans a node for 1 pod (shop/a): EC2 had no capacity for web-1, which was created for it\n"
        "- A node is there or on its way for 1 pod (shop/b): web-2 (m5.large) was created for it\n"
        "- The next batch plans a node for 1 pod (shop/c): web-3, which was created for it, got no instance: "
        "LaunchTimeout\n"
    ) in shown


def test_what_is_over_is_not_shown() -> None:
    pause = PurchasePause(group="g", until=NOW, waiting=1)
    shown = page.current_details("c", "waits", [], [], [], None, [pause], NOW)
    assert "####" not in shown


COST = ClusterCost(
    at=NOW,
    nodes=3,
    others=2,
    price=0.3,
    lower_bound=0.25,
    pools=[CostPart(name="web", price=0.2), CostPart(name="api", price=0.1)],
    more_pools=2,
    namespaces=[CostPart(name="shop", price=0.18)],
    unused=0.12,
)


def test_the_page_says_what_the_cluster_and_its_namespaces_cost_and_which_command_says_more() -> None:
    shown = page.current_details("c", "waits", batch_lines.remembered([], PLAN, 7, LATER), [], [], None, [], NOW, COST)
    _, _, section = shown.partition("#### What the cluster cost at 2026-11-21 12:00:00 UTC\n\n")
    assert section.startswith(
        "- 3 nodes, 0.3000 USD/h; any nodes for its pods cost at least 0.2500 USD/h\n"
        "- not counted: 2 nodes that Tenon did not launch\n"
        "- by NodePool, in USD/h: web 0.2000, api 0.1000, 2 more\n"
        "- by namespace, in USD/h: shop 0.1800; no pod uses 0.1200 USD/h\n"
        "- planned since then: 2 nodes, 0.2500 USD/h\n"
        "- now: `tenon cost`, `tenon top`\n"
    )
    for command in ("tenon cost --by namespace", "tenon explain pod", "tenon why NODE", "--disruption"):
        assert command in shown
    assert "What the cluster cost" not in page.current_details("c", "waits", [], [], [], None, [], NOW)


def planned_since(outcomes: list[BatchOutcome]) -> list[str]:
    shown = page.current_details("c", "waits", outcomes, [], [], None, [], NOW, COST)
    return [line for line in shown.splitlines() if line.startswith("- planned since then")]


def test_what_ec2_refused_is_not_planned_since_the_measurement_and_neither_is_what_was_planned_before() -> None:
    plan = evolve(PLAN, claim_prices=[0.1, 0.15])
    outcomes = batch_lines.remembered(batch_lines.remembered([], plan, 6, NOW), plan, 7, LATER)
    assert planned_since(outcomes) == ["- planned since then: 2 nodes, 0.2500 USD/h"]
    one_refused = batch_lines.with_unlaunched(outcomes, [refused("web-2")])
    assert planned_since(one_refused) == ["- planned since then: 1 node, 0.1000 USD/h"]
    assert planned_since(batch_lines.with_unlaunched(one_refused, [refused("web-1")])) == []
    many = [evolve(outcomes[-1], batch=number) for number in range(batch_lines.REMEMBERED)]
    assert planned_since(many) == ["- planned since then: at least 20 nodes, 2.5000 USD/h"]


def test_the_pods_without_a_node_are_those_of_a_time_and_those_with_a_place_get_it() -> None:
    groups = [
        PendingPods(why="NodePool web: needs 9000 CPU", pods=["shop/huge"], count=1),
        PendingPods(why="web-1 (m5.large) was created for it", pods=["shop/a"], count=1, has_place=True),
    ]
    plan = PlanResult(pending=groups, planned_at=NOW)
    shown = page.current_details("c", "waits", [], [], [], plan, [], NOW)
    assert "#### Pods without a node at 2026-11-21 12:00:00 UTC\n\n- No node is bought for 1 pod (shop/huge)" in shown
    assert "shop/a" in shown
    later = page.current_details("c", "waits", [], [], [], without_placed_pods(plan), [], NOW)
    assert "shop/huge" in later
    assert "shop/a" not in later
