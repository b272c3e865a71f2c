"""What a command saves is compared with the prediction, and a NodePool whose commands fall short waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tenon.apis.common import Condition
from tenon.apis.conditions import READY, set_condition
from tenon.disruption.history.savings import (
    LONGEST_PAUSE,
    REMEMBERED,
    is_forgotten,
    measured,
    remember,
    slowed_pools,
    total,
    waits_until,
)
from tenon.disruption.history.slowed_condition import slowed_by_conditions, with_slowed
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    MeasuredSaving,
    OpenCommand,
    PoolSavings,
    Replacement,
)
from tests.tenon.disruption.clusters import NOW

MINUTE = timedelta(minutes=1)
GOOD = MeasuredSaving(predicted=0.1, reached=0.05)
POOR = MeasuredSaving(predicted=0.1, reached=0.04)


def command(predicted: float = 0.3, replacements: int = 1, **prices: float) -> DisruptionCommand:
    """A command that removes these nodes, whose names begin with that of their NodePool."""
    candidates = [
        DisruptionCandidate(claim=name, uid=name, pool=name.split("_")[0], since=NOW, price=price)
        for name, price in prices.items()
    ]
    new = [Replacement(name=f"new-{number}", pool="web", body={}) for number in range(replacements)]
    return DisruptionCommand(
        id="x", reason="Underutilized", candidates=candidates, replacements=new, predicted=predicted
    )


@pytest.mark.parametrize(
    ("names", "prices", "reached"),
    [
        (["web_1", "web_2"], {"new-0": 0.1}, 0.3),
        (["web_1", "web_2"], {"new-0": 0.35}, 0.05),
        (["web_1"], {"new-0": 0.1}, 0.1),
        (["web_1"], {"new-0": 0.25}, -0.05),
    ],
    ids=["as-predicted", "dearer-offering", "one-stays", "costs-more"],
)
def test_wsh02_a_command_saves_what_left_minus_what_came(
    names: list[str], prices: Mapping[str, float], reached: float
) -> None:
    result = measured(command(web_1=0.2, web_2=0.2), names, prices)
    assert result == {"web": MeasuredSaving(predicted=0.3, reached=reached)}


def test_wsh02_a_command_that_launches_nothing_saves_the_price_of_what_left() -> None:
    result = measured(command(predicted=0.2, replacements=0, web_1=0.2), ["web_1"], {})
    assert result == {"web": MeasuredSaving(predicted=0.2, reached=0.2)}


def test_wsh02_pools_share_a_saving_by_the_price_of_their_nodes() -> None:
    result = measured(command(web_1=0.3, batch_1=0.1), ["web_1", "batch_1"], {"new-0": 0.2})
    assert result == {
        "web": MeasuredSaving(predicted=0.225, reached=0.15),
        "batch": MeasuredSaving(predicted=0.075, reached=0.05),
    }
    assert total(result.values()) == MeasuredSaving(predicted=0.3, reached=0.2)


@pytest.mark.parametrize(
    ("disruption_command", "names", "prices"),
    [
        (command(web_1=0.2), ["web_1"], {}),
        (command(web_1=0.2), ["web_1"], {"new-0": 0.0}),
        (command(web_1=0.0), ["web_1"], {"new-0": 0.1}),
        (command(web_1=0.2), [], {"new-0": 0.1}),
    ],
    ids=["replacement-gone", "no-price", "no-price-of-the-old-node", "nothing-left"],
)
def test_wsh02_without_all_prices_no_saving_is_stated(
    disruption_command: DisruptionCommand, names: list[str], prices: Mapping[str, float]
) -> None:
    assert measured(disruption_command, names, prices) is None


def after(*savings: MeasuredSaving, every: timedelta = MINUTE) -> PoolSavings | None:
    """What is remembered after these commands, one after the other."""
    pool_savings: PoolSavings | None = None
    for number, saving in enumerate(savings):
        pool_savings = remember(pool_savings, saving, started=NOW + number * every, now=NOW + (number + 1) * every)
    return pool_savings


def pause(*savings: MeasuredSaving) -> timedelta:
    """How long the NodePool waits after these commands."""
    pool_savings = after(*savings)
    last = NOW + len(savings) * MINUTE
    if pool_savings is None or not slowed_pools({"web": pool_savings}, {}, last):
        return timedelta()
    return waits_until(pool_savings) - last


def test_wsh01_pauses_double_up_to_a_limit_and_end_with_a_command_that_pays() -> None:
    pauses = [pause(*[POOR] * count) / MINUTE for count in range(1, 9)]
    assert pauses == [0, 10, 20, 40, 80, 120, 120, 120]
    assert pause(*[POOR] * 1000) == LONGEST_PAUSE
    assert after(*[POOR] * 8, GOOD) is None
    assert pause(*[POOR] * 8, GOOD, POOR) == timedelta()


def test_wsh01_a_pool_whose_commands_pay_is_not_remembered() -> None:
    assert after(GOOD, GOOD) is None


@pytest.mark.parametrize("price", [0.0, 0.00001], ids=["m5.large", "p5.48xlarge"])
def test_wsh01_a_command_that_was_to_save_nothing_ends_no_pause(price: float) -> None:
    """It only frees a place in a capacity reservation, which counts as a ten-millionth of its price."""
    only_frees = MeasuredSaving(predicted=price, reached=price)
    assert after(POOR, POOR, only_frees) == after(POOR, POOR)
    assert after(only_frees) is None


def test_wsh01_commands_that_ran_at_the_same_time_count_as_one() -> None:
    pool_savings = None
    for number in range(20):
        pool_savings = remember(pool_savings, POOR, started=NOW, now=NOW + (number + 1) * MINUTE)
    assert pool_savings == PoolSavings(short=1, predicted=2.0, reached=0.8, at=NOW + MINUTE)


def test_wsh01_a_command_that_fell_short_is_forgotten_after_a_day() -> None:
    pool_savings = after(POOR, POOR)
    assert pool_savings is not None
    late = pool_savings.at + REMEMBERED
    assert is_forgotten(pool_savings, late)
    assert slowed_pools({"web": pool_savings}, {}, late) == {}
    again = remember(pool_savings, POOR, started=late, now=late)
    assert again is not None
    assert again.short == 1


def entry(**changed: Any) -> OpenCommand:
    value = {"command": "x", "reason": "Underutilized", "pool": "web", "until": NOW, "since": NOW, **changed}
    return OpenCommand.model_validate(value)


@pytest.mark.parametrize(
    ("open_command", "waits"),
    [
        (entry(), True),
        (entry(pool="batch"), False),
        (entry(reason="Drifted"), False),
        (entry(reason="Empty"), False),
        (entry(postponed=True), False),
    ],
    ids=["consolidation", "another-pool", "drift", "empty", "failed"],
)
def test_wsh01_after_its_pause_a_pool_runs_one_consolidation_at_a_time(open_command: OpenCommand, waits: bool) -> None:
    pool_savings = after(POOR, POOR)
    assert pool_savings is not None
    then = waits_until(pool_savings)
    assert slowed_pools({"web": pool_savings}, {}, then) == {"web": ""}
    assert bool(slowed_pools({"web": pool_savings}, {"a": open_command}, then)["web"]) is waits
    assert slowed_pools({"web": pool_savings}, {}, then - MINUTE)["web"] != ""


def test_wsh01_the_condition_says_why_and_a_simulation_reads_the_same_from_it() -> None:
    pool_savings = after(POOR, POOR)
    assert pool_savings is not None
    others = set_condition([], READY, "True", now=NOW)

    def conditions(minutes: int, savings: PoolSavings | None = pool_savings) -> list[Condition]:
        return with_slowed(others, savings, now=pool_savings.at + minutes * MINUTE, observed_generation=3)

    waiting, due = conditions(1), conditions(10)
    assert waiting[:-1] == others
    assert waiting[-1].message == (
        "The last consolidation commands saved $0.0800 an hour instead of $0.2000, so they run one at a time, and the "
        "next one starts at 2026-11-21 12:12:00 UTC at the earliest"
    )
    for minutes, shown in ((1, waiting), (10, due)):
        assert slowed_by_conditions({"web": shown}) == slowed_pools(
            {"web": pool_savings}, {}, pool_savings.at + minutes * MINUTE
        )
    assert conditions(1, None) == others
    assert with_slowed(waiting, after(POOR), now=NOW, observed_generation=3) == others
    assert slowed_by_conditions({"web": others}) == {}
