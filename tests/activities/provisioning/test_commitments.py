"""Plans use what Reserved Instances and Savings Plans leave, over all batches."""

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tenon.ec2.commitments.coverage import AccountCommitments
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.scheduling.model import Commitment
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import pod

FAMILY = Commitment("Reserved Instances of m5", 8, {"m5.large": 4, "m5.xlarge": 8})


def bought_as(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    terms = {term["key"]: term["values"] for term in body["spec"]["requirements"] if "values" in term}
    return terms.get(labels.CAPACITY_TYPE, [labels.SPOT, labels.ON_DEMAND]), terms[labels.INSTANCE_TYPE]


async def test_nodeclaims_use_commitments_until_they_are_used_up() -> None:
    """The second batch knows what the first one uses. Its second node is bought as without commitments."""
    at = Setting(pod("a", "1500m"))
    at.commitments.replace(AccountCommitments((FAMILY,)))
    first = await at.planner.plan(BATCH)
    body = at.kube.objects[first.claims[0]]
    capacity_types, types = bought_as(body)
    assert capacity_types == [labels.ON_DEMAND]
    assert set(types) <= FAMILY.units.keys()
    assert "Reserved Instances of m5 covers it" in body["metadata"]["annotations"][labels.EXPLANATION]
    at.view.claims[first.claims[0]] = ClaimRecord.of(body)
    at.view.pods = [pod("b", "3500m"), pod("c", "3500m")]
    second = await at.planner.plan(evolve(BATCH, batch=42))
    later = [bought_as(at.kube.objects[name]) for name in second.claims]
    used = sum(max(FAMILY.units[name] for name in kinds) for how, kinds in later if how == [labels.ON_DEMAND])
    assert used + max(FAMILY.units[name] for name in types) <= 8
    assert any(labels.SPOT in how for how, _ in later)
