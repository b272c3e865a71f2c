"""Plans under another price, and without the capacity of some types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.simulating.simulation import InputError, SimulationInput, simulation_of
from tenon.simulation.market import MarketChange
from tests.simulate.running import POOL, catalogue, deployment

LOAD = POOL + deployment("web", 1, cpu="3", memory="4Gi")


def plan(folder: Path, *changes: MarketChange, manifests: str = LOAD) -> dict[str, Any]:
    question = SimulationInput(
        [], catalog=str(catalogue(folder)), texts={"manifests": manifests}, market_changes=changes
    )
    return simulation_of(question).document


def bought(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(claim["offering"]["instanceType"], claim["offering"]["zone"]) for claim in document["nodeClaims"]}


def test_a_dearer_type_is_left_for_another(tmp_path: Path) -> None:
    before = plan(tmp_path)
    ((name, _),) = bought(before)
    after = plan(tmp_path, MarketChange(name, price="90"))
    assert name not in {kind for kind, _ in bought(after)}
    assert after["totals"]["pricePerHour"] > before["totals"]["pricePerHour"]


def test_an_adjustment_changes_the_price_and_of_two_changes_the_later_one_holds(tmp_path: Path) -> None:
    price = plan(tmp_path)["totals"]["pricePerHour"]
    assert plan(tmp_path, MarketChange("*", price="-50%"))["totals"]["pricePerHour"] == pytest.approx(price / 2)
    repriced = plan(tmp_path, MarketChange("*", price="-90%"), MarketChange("*", price="+0%"))
    assert repriced["totals"]["pricePerHour"] == pytest.approx(price)


def test_a_type_without_capacity_is_not_bought_and_the_plan_says_why(tmp_path: Path) -> None:
    ((name, _),) = bought(plan(tmp_path))
    after = plan(tmp_path, MarketChange(name, is_unavailable=True))
    assert name not in {kind for kind, _ in bought(after)}
    assert any(f"EC2 refused 1 cheaper type, {name}" in claim["why"] for claim in after["nodeClaims"])
    assert not any("1970" in claim["why"] for claim in after["nodeClaims"]), "manifests without a time are of now"


def test_a_zone_without_capacity_is_left(tmp_path: Path) -> None:
    ((_, zone),) = bought(plan(tmp_path))
    after = plan(tmp_path, MarketChange("*", zone=zone, is_unavailable=True))
    assert after["nodeClaims"]
    assert zone not in {place for _, place in bought(after)}


def test_pods_find_no_node_if_ec2_has_nothing(tmp_path: Path) -> None:
    after = plan(tmp_path, MarketChange("*", is_unavailable=True))
    assert after["totals"]["unschedulable"] == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (MarketChange("m5.lrge"), "'m5.lrge' is no instance type of the catalogue: did you mean m5.large?"),
        (
            MarketChange("q?"),
            "'q?' is no instance type of the catalogue: write one such as m5.large, or m5.* for a family",
        ),
        (MarketChange("m5.large", zone="mars-1a"), "the catalogue sells no m5.large mars-1a"),
        (
            MarketChange("m5.large", price="cheap"),
            "'cheap' is no price: write dollars an hour such as 0.12, or a change such as +10% or -0.05",
        ),
    ],
)
def test_a_change_that_means_nothing_is_refused(tmp_path: Path, change: MarketChange, fault: str) -> None:
    with pytest.raises(InputError) as refused:
        plan(tmp_path, MarketChange("m5.large", price="1"), change)
    assert list(map(str, refused.value.faults)) == [f"change 2 of prices and capacity: {fault}"]
