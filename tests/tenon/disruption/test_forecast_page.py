"""What people read of the next consolidation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.reasons import Reason
from tenon.disruption.commands import forecast_page
from tenon.evolve import evolve
from tenon.messages.forecast import ConsolidationForecast, ForecastCommand, ForecastNode, LeavingNode

NOW = datetime(2026, 11, 28, 22, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=90)
REPLACES = ForecastCommand(
    reason=Reason.UNDERUTILIZED,
    nodes=["n1", "n2"],
    leaving={
        "n1": LeavingNode(instance_type="m5.xlarge", zone="us-west-2a", capacity_type="on-demand", price=0.192, pods=1)
    },
    more_nodes=3,
    pools=["batch", "web"],
    replacements=[
        ForecastNode(pool="web", instance_type="m5.large", zone="us-west-2a", capacity_type="spot", price=0.04)
    ],
    saving=0.1,
)
REMOVES = ForecastCommand(reason=Reason.EMPTY, nodes=["n3"], pools=["web"], saving=0.2)


@pytest.mark.parametrize(
    ("forecast", "introduction"),
    [
        (ConsolidationForecast(asked_at=NOW, at=NOW, commands=[REMOVES]), "Next consolidation: now, within seconds:"),
        (
            ConsolidationForecast(asked_at=NOW, at=LATER, commands=[REMOVES]),
            "Next consolidation: 2026-11-28 23:30:00 UTC (in 1h30m), if nothing changes until then:",
        ),
        (
            ConsolidationForecast(asked_at=NOW, at=LATER, commands=[REMOVES], at_the_latest=True),
            "Next consolidation: at the latest 2026-11-28 23:30:00 UTC (in 1h30m), if nothing changes until then:",
        ),
        (
            ConsolidationForecast(asked_at=NOW, at=LATER),
            "Next consolidation: none, unless something changes. All waits are over by 2026-11-28 23:30:00 UTC (in "
            "1h30m), and no move saves money then.",
        ),
        (ConsolidationForecast(asked_at=NOW), f"{forecast_page.NOTHING_ENDS}."),
    ],
    ids=["now", "later", "at the latest", "no move", "never"],
)
def test_the_first_line_says_when_consolidation_acts(forecast: ConsolidationForecast, introduction: str) -> None:
    assert forecast_page.lines(forecast)[0] == introduction


def test_each_command_says_which_nodes_leave_what_comes_and_what_it_saves() -> None:
    forecast = ConsolidationForecast(asked_at=NOW, at=NOW, commands=[REPLACES, REMOVES], more_commands=1, is_cut=True)
    assert forecast_page.lines(forecast)[1:] == [
        "- Underutilized: replaces 5 nodes of NodePool batch, web: n1 (m5.xlarge, on-demand, us-west-2a, 0.1920 USD/h, "
        "1 pod), n2 and 3 more, with m5.large (spot, us-west-2a, 0.0400 USD/h); saves 0.1000 USD/h",
        "- Empty: removes 1 node of NodePool web: n3; saves 0.2000 USD/h",
        "- and 1 more command",
        "The search used up its time, so there may be more.",
    ]


def test_a_command_that_costs_more_or_needs_a_person_says_so() -> None:
    command = evolve(REMOVES, saving=-0.2, awaits_approval=True)
    (_, line) = forecast_page.lines(ConsolidationForecast(asked_at=NOW, at=NOW, commands=[command]))
    assert line == ("- Empty: removes 1 node of NodePool web: n3; costs 0.2000 USD/h more; it waits for approval first")


def test_a_command_that_saves_what_nobody_knows_claims_no_figure() -> None:
    command = evolve(REMOVES, saving=None)
    (_, line) = forecast_page.lines(ConsolidationForecast(asked_at=NOW, at=NOW, commands=[command]))
    assert line == (
        "- Empty: removes 1 node of NodePool web: n3; what it saves is not known, because a price is not known"
    )


def test_frozen_nodepools_are_named_with_who_froze_them_and_until_when() -> None:
    clause = "frozen by DisruptionFreeze pause-batch of ann (release) until 2026-11-29 01:00 UTC"
    lines = forecast_page.lines(ConsolidationForecast(asked_at=NOW, frozen={"batch": clause}))
    assert lines[1:] == [
        f"- NodePool batch is {clause}",
        "- To end a freeze earlier: `tenon resume NODEPOOL` for a pause, else `kubectl delete disruptionfreeze NAME`",
    ]
    assert len(forecast_page.lines(ConsolidationForecast(asked_at=NOW))) == 1, "nothing is frozen"


def test_a_forecast_of_which_a_part_is_shown_says_how_much_is_left_out() -> None:
    frozen = {f"pool-{number}": "frozen by DisruptionFreeze release until it is deleted" for number in range(4)}
    forecast = ConsolidationForecast(
        asked_at=NOW, at=NOW, commands=[REMOVES] * 5, more_commands=2, frozen=frozen, more_frozen=1
    )
    assert forecast_page.lines(forecast, most=1)[1:] == [
        "- Empty: removes 1 node of NodePool web: n3; saves 0.2000 USD/h",
        "- and 6 more commands",
        "- NodePool pool-0 is frozen by DisruptionFreeze release until it is deleted",
        "- and 4 more NodePools are frozen",
        forecast_page.ENDING_A_FREEZE,
    ]
    assert forecast_page.lines(forecast)[-2] == "- and 1 more NodePool is frozen"


def test_a_line_of_a_forecast_is_bounded_whatever_a_person_wrote_into_a_freeze() -> None:
    pools = [f"team-{number:03}-{'x' * 50}" for number in range(100)]
    command = evolve(REPLACES, pools=pools)
    clause = f"frozen by DisruptionFreeze {'f' * 250} of {'b' * 256} ({'r' * 256}) until it is deleted"
    lines = forecast_page.lines(ConsolidationForecast(asked_at=NOW, at=NOW, commands=[command], frozen={"a": clause}))
    assert max(map(len, lines)) < 700
    assert "and 97 more: n1 (" in lines[1]
