"""How large nodes are chosen (QRK-23): cheap, few, and never dearer than plain first-fit."""

from __future__ import annotations

from tenon.apis import labels
from tenon.scheduling import sizing
from tenon.scheduling.engine import solve
from tenon.scheduling.pod_classes import group, resource_names
from tenon.scheduling.template import SPOT_FLEXIBILITY, Template
from tenon.scheduling.type_table import TypeTable
from tests.scheduling.builders import AMD64, ON_DEMAND, catalog, entry, ordinary_entries, pool, price, problem, replicas


def test_qrk23_many_equal_pods_share_a_few_nodes_of_the_right_size() -> None:
    plan = solve(problem(replicas(100, "1", "1Gi"), pool("default", ON_DEMAND, AMD64)))
    assert len(plan.claims) <= 8
    assert price(plan) <= 104 * 0.0425 + 0.1


def test_qrk23_the_last_node_is_no_larger_than_its_pods_need() -> None:
    plan = solve(problem(replicas(34, "1", "1Gi"), pool("default", ON_DEMAND, AMD64)))
    assert price(plan) <= 40 * 0.0425 + 1e-9


def test_unlike_pods_share_nodes() -> None:
    pods = [*replicas(20, "3500m", "2Gi", "cpu"), *replicas(20, "100m", "14Gi", "memory")]
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64)))
    apart = [solve(problem(part, pool("default", ON_DEMAND, AMD64))) for part in (pods[:20], pods[20:])]
    assert price(plan) < sum(map(price, apart))


def test_burstable_types_do_not_win_by_their_credits() -> None:
    cheap = [entry(f"t3.{size}", 2, gib, 0.0104 * gib) for size, gib in (("small", 2), ("medium", 4), ("large", 8))]
    types = catalog(*ordinary_entries(), *cheap)
    plan = solve(problem(replicas(60, "1", "1Gi"), pool("default", ON_DEMAND, AMD64, types=types)))
    assert len(plan.claims) <= 8


def test_one_node_may_be_burstable() -> None:
    types = catalog(*ordinary_entries(), entry("t3.small", 2, 2, 0.0208))
    (claim,) = solve(problem(replicas(1, "1", "1Gi"), pool("default", ON_DEMAND, AMD64, types=types))).claims
    assert claim.instance_types[0] == "t3.small"


def test_a_pool_of_burstable_types_alone_still_works() -> None:
    plan = solve(problem(replicas(4, "1", "1Gi"), pool(types=catalog(entry("t3.large", 2, 8, 0.08)))))
    assert len(plan.claims) == 4


def test_spot_claims_stay_flexible_where_they_can() -> None:
    plan = solve(problem(replicas(300, "1", "2Gi"), pool("default", AMD64)))
    assert {claim.offering[2] for claim in plan.claims} == {labels.SPOT}
    assert min(len(claim.instance_types) for claim in plan.claims) >= SPOT_FLEXIBILITY


def test_no_plan_is_dearer_than_plain_first_fit() -> None:
    for count in (1, 7, 33, 95, 250):
        pods = [*replicas(count, "900m", "3Gi", "a"), *replicas(count // 2, "2500m", "1Gi", "b")]
        names = resource_names(pods)
        wanted = pool("default", ON_DEMAND, AMD64)
        template = Template(wanted, [], TypeTable(wanted.instance_types, names))
        load = [(c, len(c.pods)) for c in group(pods, names)]
        plain = sizing._first_fit(template, load, template.table.every)
        best = sizing.pack(template, load)
        assert best.price() <= plain.price()
        assert not best.left


def test_large_batches_of_equal_pods_are_placed_in_bulk() -> None:
    plan = solve(problem(replicas(20_000, "500m", "1Gi"), pool()))
    assert sum(len(claim.pods) for claim in plan.claims) == 20_000
