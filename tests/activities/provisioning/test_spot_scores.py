"""Plans and disruption choose zones by the Spot placement scores that the leader has read."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.decision import Proposal
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tests.activities.disruption.move_setting import Scripted
from tests.activities.disruption.move_setting import Setting as MoveSetting
from tests.activities.provisioning.fake_view import node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import ZONES, pod

SCORES = dict(zip(ZONES, (2, 3, 9), strict=True))


class Looks(Scripted):
    """A method that only keeps what it decides from."""

    def __init__(self) -> None:
        super().__init__(Proposal(()), Reason.UNDERUTILIZED, "multi")
        self.situations: list[Situation] = []

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        self.situations.append(situation)
        return super().propose(eligible, budgets, situation)


async def test_wsh39_a_nodeclaim_is_only_for_the_zone_with_the_highest_score_and_says_so() -> None:
    at = Setting(pod("a", "1500m"))
    at.spot_scores.replace("default", SCORES)
    at.view.pools = [node_pool(annotations={labels.SPOT_PLACEMENT_SCORES: "true"})]
    (name,) = (await at.planner.plan(BATCH)).claims
    body = at.kube.objects[name]
    zones = [term["values"] for term in body["spec"]["requirements"] if term["key"] == labels.ZONE]
    assert zones == [[ZONES[2]]]
    sentence = f"{labels.SPOT_PLACEMENT_SCORES}: a score of at least 9 in {ZONES[2]}, at the same price"
    assert sentence in body["metadata"]["annotations"][labels.EXPLANATION]


async def test_wsh39_a_nodepool_without_the_annotation_has_no_scores() -> None:
    at = Setting(pod("a", "1500m"))
    at.spot_scores.replace("default", SCORES)
    (name,) = (await at.planner.plan(BATCH)).claims
    assert all(term["key"] != labels.ZONE for term in at.kube.objects[name]["spec"]["requirements"])


async def test_wsh39_replacements_are_chosen_by_scores_too() -> None:
    """Otherwise consolidation would buy in the zone that plans leave out."""
    looks = Looks()
    at = MoveSetting("a", methods=[looks])
    at.spot_scores.replace("default", SCORES)
    at.view.pools = [node_pool(annotations={labels.SPOT_PLACEMENT_SCORES: "5%"})]
    await at.run_pass()
    (situation,) = looks.situations
    assert situation.model is not None
    assert [own.spot_scores for own in situation.model.problem.pools] == [SCORES]
