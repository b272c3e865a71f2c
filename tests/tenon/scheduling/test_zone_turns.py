"""A plan that is cut has nodes in all of its zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tenon.apis import labels
from tenon.ec2.refusals.known_quotas import KnownQuotas, VcpuQuota, within_quotas
from tenon.provisioning.launch_budget import within_budget
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan
from tenon.scheduling.zone_turns import zones_in_turn
from tests.tenon.scheduling.between_pods import spread, web
from tests.tenon.scheduling.builders import catalog, entry, pool, problem

GPUS = catalog(entry("g5.xlarge", 4, 16, 1.0))


def by_quota(plan: Plan) -> Plan:
    quotas = {(name, "G and VT"): VcpuQuota(80, 0) for name in (labels.SPOT, labels.ON_DEMAND)}
    return within_quotas(plan, KnownQuotas(datetime.now(UTC), quotas, {"g5.xlarge": 4}))[0]


def by_budget(plan: Plan) -> Plan:
    return within_budget(plan, lambda _: True, lambda *_: 20)[0]


@pytest.mark.parametrize("cut", [by_quota, by_budget])
def test_what_is_left_of_a_plan_that_spreads_over_zones_still_does(cut: Callable[[Plan], Plan]) -> None:
    """The pods of nodes that are all in one zone could not use them."""
    plan = solve(problem(web(60, spread(), cpu="3"), pool(types=GPUS)))
    claims = cut(plan).claims
    zones = Counter(claim.requirements.labels()[labels.ZONE] for claim in claims)
    assert len(claims) == 20
    assert max(zones.values()) - min(zones.values()) == 1
    assert [item for item in plan.claims if item in claims] == list(claims), "in the order of the plan"


def test_a_zone_with_few_nodes_has_its_first_one_early() -> None:
    claims = solve(problem(web(60, spread(), cpu="3"), pool(types=GPUS))).claims
    first_zone = claims[:20]
    assert zones_in_turn([*first_zone, claims[20]])[:2] == [0, 20]
