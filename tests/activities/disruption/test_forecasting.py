"""What the planner answers to an operator who asks for the next consolidation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from temporalio.exceptions import ApplicationError

from activities.disruption.forecasting import LISTED_COMMANDS, LISTED_NODES, LISTED_POOLS, Forecaster
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.reasons import Reason
from tenon.disruption.methods.base import Method
from tenon.messages.disruption import OpenCommand
from tenon.messages.forecast import ForecastInput
from tests.activities.disruption.disruption_setting import managed
from tests.activities.disruption.move_setting import LATER, Setting, command, scripted
from tests.activities.provisioning.fake_view import node_pool


def forecaster(at: Setting, *methods: Method) -> Forecaster:
    return Forecaster(at.view, at.situations, lambda _: methods, free_memory=at.free_memory, now=lambda: LATER)


async def test_a_forecast_names_the_commands_of_now_with_their_savings_and_bounds_them() -> None:
    names = [f"n{number}" for number in range(LISTED_COMMANDS + 2)]
    commands = [command(name, expected=0.05) for name in names]
    at = Setting(*names)
    forecast = await forecaster(at, scripted(*commands)).forecast(ForecastInput(cluster="c"))
    assert (forecast.asked_at, forecast.at, forecast.more_commands) == (LATER, LATER, 2)
    assert [entry.nodes for entry in forecast.commands] == [[name] for name in names[:LISTED_COMMANDS]]
    first = forecast.commands[0]
    assert (first.reason, first.saving, first.pools) == (Reason.UNDERUTILIZED, 0.05, ["default"])
    assert first.leaving["n0"].price == pytest.approx(0.1)
    assert len(at.freed) == 1


async def test_a_command_of_a_forecast_names_its_first_nodes() -> None:
    names = [f"n{number}" for number in range(LISTED_NODES + 3)]
    forecast = await forecaster(Setting(*names), scripted(command(*names))).forecast(ForecastInput(cluster="c"))
    (entry,) = forecast.commands
    assert (entry.nodes, entry.more_nodes) == (names[:LISTED_NODES], 3)


async def test_a_removal_of_empty_nodes_saves_what_they_cost() -> None:
    at = Setting("a", "b")
    at.view.managed = [managed("a", empty=True), managed("b", empty=True)]
    forecast = await forecaster(at).forecast(ForecastInput(cluster="c"))
    (entry,) = forecast.commands
    assert entry.reason == Reason.EMPTY
    assert entry.saving == pytest.approx(0.2)


async def test_what_a_removal_saves_is_not_known_if_a_price_is_not() -> None:
    at = Setting("a", "b")
    at.view.managed = [managed("a", empty=True), managed("b", empty=True)]
    at.view.details["b"] = replace(at.view.details["b"], price=0.0)
    (entry,) = (await forecaster(at).forecast(ForecastInput(cluster="c"))).commands
    assert entry.saving is None


async def test_nodes_under_command_are_left_out() -> None:
    entry = OpenCommand(command="c1", reason="Drifted", pool="default", until=LATER, since=LATER)
    at = Setting("a", "b")
    at.view.managed = [managed(name, empty=True) for name in ("a", "b")]
    forecast = await forecaster(at).forecast(ForecastInput(cluster="c", ledger={"a": entry}))
    assert [command.nodes for command in forecast.commands] == [["b"]]


async def test_a_worker_that_has_not_seen_the_cluster_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Setting("a")
    monkeypatch.setattr(at.view, "synced", lambda: False)
    with pytest.raises(ApplicationError, match="not synced yet") as error:
        await forecaster(at).forecast(ForecastInput(cluster="c"))
    assert not error.value.non_retryable


async def test_a_forecast_names_frozen_nodepools() -> None:
    freeze = DisruptionFreeze.model_validate(
        {"metadata": {"name": "release"}, "spec": {"requestedBy": "ann", "reason": "release"}}
    )
    at = Setting("a")
    at.freezes.append(freeze)
    forecast = await forecaster(at).forecast(ForecastInput(cluster="c"))
    assert forecast.frozen == {"default": "frozen by DisruptionFreeze release of ann (release) until it is deleted"}


async def test_a_forecast_says_how_many_more_nodepools_are_frozen_than_it_names() -> None:
    at = Setting("a")
    at.freezes.append(DisruptionFreeze.model_validate({"metadata": {"name": "release"}, "spec": {}}))
    at.view.pools = [node_pool(f"pool-{number}") for number in range(LISTED_POOLS + 2)]
    forecast = await forecaster(at).forecast(ForecastInput(cluster="c"))
    assert (len(forecast.frozen), forecast.more_frozen) == (LISTED_POOLS, 2)
