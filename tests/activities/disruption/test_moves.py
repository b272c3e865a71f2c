"""Looking for commands that move pods: what a pass looks for, and what of it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from activities.disruption import moves
from activities.disruption.moves import methods_within
from activities.kubernetes.nodeclaims import view_of
from activities.provisioning.solving import Limit
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.search.rescheduling import Rescheduler
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.types.instance_types import without
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.explanation import Explanation
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Problem
from tests.activities.disruption.disruption_setting import managed
from tests.activities.disruption.move_setting import Setting, command, scripted
from tests.activities.provisioning.fake_view import START, FakeTypes, node_pool
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, situation
from tests.tenon.scheduling.builders import CATALOG, pod, pool


async def test_a_pass_frees_its_memory_outside_the_event_loop_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Setting("a", methods=[scripted()])
    await at.run_pass()
    assert len(at.freed) == 1

    def broken() -> None:
        raise RuntimeError("no snapshot")

    failing = Setting("a", methods=[scripted()])
    monkeypatch.setattr(failing.view, "snapshot", broken)
    with pytest.raises(RuntimeError):
        await failing.run_pass()
    assert len(failing.freed) == 1
    assert threading.main_thread() not in {*at.freed, *failing.freed}


async def test_dis46_a_pass_counts_what_started_while_it_ran() -> None:
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    look = at.finder.start(at.view.managed, {})
    assert look is not None
    await look
    at.view.pools = [node_pool(edits={"disruption/budgets": [{"nodes": "1"}]})]
    assert at.finder.take(at.situation(under_command=["b"])) == []


(LARGEST,) = solve(Problem([pod("a")], [pool(types=[CATALOG[-1]])])).claims
REFUSED = [
    OfferingKey("spot", kind.name, zone)
    for kind in CATALOG
    if kind.name != CATALOG[-1].name
    for zone in {offering.zone for offering in CATALOG[0].offerings}
]


def without_refused(_: FakeTypes, node_class: Any, unavailable: frozenset[OfferingKey], **__: Any) -> Any:
    """The instance types with what EC2 refused marked, as the worker's are."""
    return without(CATALOG, unavailable)


async def test_a_replacement_that_is_bought_in_a_shortage_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drifted node does not wait for cheaper capacity, so its replacement is replaced when that is available."""

    monkeypatch.setattr(FakeTypes, "instance_types", without_refused)

    async def marks(refusals: Iterable[OfferingKey]) -> list[str | None]:
        at = Setting("a", methods=[scripted(command("a", reason=Reason.DRIFTED, kind="", replacements=(LARGEST,)))])
        at.refusals.replace_unavailable(dict.fromkeys(refusals, Backoff(START + timedelta(hours=2))))
        (result,) = await at.run_pass()
        return [
            replacement.body["metadata"]["annotations"].get(labels.BOUGHT_IN_SHORTAGE)
            for replacement in result.replacements
        ]

    assert await marks([]) == [None]
    assert await marks(REFUSED) == ["0.0272"]


async def test_a_replacement_is_marked_although_the_refusals_end_while_the_pass_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pass did without the refused types, so they were what the node would usually cost."""
    monkeypatch.setattr(FakeTypes, "instance_types", without_refused)
    at = Setting("a", methods=[scripted()])
    at.refusals.replace_unavailable(dict.fromkeys(REFUSED, Backoff(START + timedelta(hours=2))))

    def decides(*_: object) -> Decision:
        at.refusals.replace_unavailable({})
        return Decision((command("a", reason=Reason.DRIFTED, kind="", replacements=(LARGEST,)),))

    monkeypatch.setattr(moves, "decide", decides)
    ((replacement,),) = [result.replacements for result in await at.run_pass()]
    assert replacement.body["metadata"]["annotations"][labels.BOUGHT_IN_SHORTAGE] == "0.0272"


async def test_the_nodeclaim_of_a_replacement_says_for_which_command_it_is_bought() -> None:
    (planned,) = solve(Problem([pod("a")], [pool(types=CATALOG)])).claims
    drifted = command("a", reason=Reason.DRIFTED, kind="", replacements=(planned,), explanation=("AMIDrift", "1 pod"))
    (result,) = await Setting("a", methods=[scripted(drifted)]).run_pass()
    (replacement,) = result.replacements
    explanation = Explanation.of(replacement.body["metadata"]["annotations"][labels.EXPLANATION])
    assert explanation.purpose == f"command {result.id} (Drifted)"
    assert explanation.lines == (explanation.purpose, "AMIDrift", "1 pod")
    view = view_of(ClaimRecord.of({**replacement.body, "status": {}}))
    assert (view.bought_for, tuple(view.explanation)) == (explanation.purpose, explanation.lines)


async def test_n15_129_the_pass_after_a_repair_follows_at_once() -> None:
    for reason, at_once in ((Reason.UNHEALTHY, True), (Reason.DRIFTED, False)):
        at = Setting("a", methods=[scripted(command("a", reason=reason, kind=""), reason=reason, kind="")])
        await at.run_pass()
        assert (at.finder.due_in() < 1.0) is at_once
        assert (at.finder.start(at.view.managed, {}) is not None) is at_once, "although nothing has changed"


def test_dis78_drift_leaves_half_of_the_time_for_consolidation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drifted nodes that cannot leave used all of it in every pass, so that consolidation found nothing for days."""
    seconds = 0.0
    simulate = Rescheduler.simulate

    def slow(self: Rescheduler, claims: Iterable[str], **how: Any) -> Plan:
        nonlocal seconds
        names = list(claims)
        seconds += 10.0 * any(name.startswith("stuck") for name in names)
        return simulate(self, names, **how)

    monkeypatch.setattr(Rescheduler, "simulate", slow)
    stuck = NodeSpec(
        pods=[PodSpec(selector={"kubernetes.io/hostname": "elsewhere"})], drifted="AMIDrift", price=0.0, quiet=None
    )
    nodes = {f"stuck-{number}": stuck for number in range(9)} | {"dear": NodeSpec(type="m5.4xlarge", pods=[PodSpec()])}
    methods = methods_within(Limit(60.0, lambda: seconds))
    decision = decide(situation(Cluster(nodes=nodes)), methods)
    assert [command.candidates[0].node.claim for command in decision.commands] == ["dear"]
    assert (len(decision.blocked), decision.is_cut) == (2, True), "the third simulation was cut"


async def test_a_pass_starts_fewer_commands_that_launch_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """NodeClaims are large, and all commands of a pass must fit in a message."""
    monkeypatch.setattr(moves, "MAX_LAUNCHING", 1)
    (launched,) = solve(Problem([pod()], [pool()])).claims
    launching = [command(name, replacements=(launched,)) for name in "ac"]
    at = Setting("a", "b", "c", "d", methods=[scripted(launching[0], command("b"), launching[1], command("d"))])
    assert [item.candidates[0].claim for item in await at.run_pass()] == ["a", "b", "d"]


async def test_commands_of_one_pass_evict_their_pods_at_the_same_time() -> None:
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    first, second = await at.run_pass()
    assert first.leaves_from == second.leaves_from is not None


@pytest.mark.parametrize(
    ("changed", "edits", "looks"),
    [
        ({}, {}, True),
        ({"empty": True}, {}, False),
        ({"leaving": True}, {}, False),
        ({}, {"disruption/consolidationPolicy": "WhenEmpty"}, False),
        ({}, {"disruption/consolidateAfter": "Never"}, False),
        ({"drifted": True}, {"disruption/consolidateAfter": "Never"}, True),
    ],
)
async def test_a_pass_needs_a_node_that_may_have_to_leave(
    changed: dict[str, Any], edits: dict[str, Any], looks: bool
) -> None:
    at = Setting("a")
    at.view.pools = [node_pool(edits=edits)]
    at.view.managed = [managed("a", **{"empty": False, **changed})]
    assert (at.finder.start(at.view.managed, {}) is not None) is looks
