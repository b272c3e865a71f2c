"""What a command saves, at the prices of what was launched for it."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from temporalio.exceptions import ApplicationError

from tenon.apis.reasons import Reason, snake_case
from tenon.disruption.commands.command_messages import to_message
from tenon.ec2.commitments.coverage import Coverage
from tenon.messages.command_steps import MeasureInput
from tenon.messages.disruption import DisruptionCommand, MeasuredSaving, Replacement
from tests.activities.disruption.move_setting import Setting, command


async def test_a_replacement_that_a_savings_plan_covers_costs_nothing_in_what_was_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in what was predicted. A NodePool would otherwise be slowed down for moving pods to what is paid for."""
    at = Setting("a", "b", "new")
    covered = Coverage(covered={"new": "Savings Plan"})
    monkeypatch.setattr(at.commitments, "coverage", lambda _: covered)
    disruption_command = to_message(
        command("a", "b", expected=0.2),
        ident="x",
        replacements=[Replacement(name="new", pool="default", body={})],
        details=at.view.details,
    )
    (saving,) = (await at.savings.measure(measuring(disruption_command))).pools.values()
    assert saving.reached == pytest.approx(0.2, abs=1e-4)


def measuring(disruption_command: DisruptionCommand) -> MeasureInput:
    """Both candidates leave."""
    return MeasureInput(cluster="c", command=disruption_command, leaving_claims=["a", "b"])


MEASURED = "Command x saves $0.1000 an hour; $0.1600 was predicted"


def reached_savings() -> float:
    name = "tenon_consolidation_reached_savings_per_hour_total"
    return REGISTRY.get_sample_value(name, {"nodepool": "default"}) or 0.0


def saved_dollars(reason: Reason) -> float:
    series = {"nodepool": "default", "reason": snake_case(reason)}
    return REGISTRY.get_sample_value("tenon_disruption_saved_dollars_per_hour_total", series) or 0.0


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        (
            Reason.UNDERUTILIZED,
            [
                (
                    "NodePool",
                    "default",
                    "ConsolidationMeasured",
                    MEASURED,
                )
            ],
        ),
        (Reason.DRIFTED, []),
    ],
)
async def test_wsh02_a_command_is_measured_at_the_prices_of_launched_offerings(
    reason: Reason, events: list[tuple[str, str, str, str]]
) -> None:
    at = Setting("a", "b", "new")
    replacements = [Replacement(name="new", pool="default", body={})]
    disruption_command = to_message(
        command("a", "b", reason=reason, expected=0.16),
        ident="x",
        replacements=replacements,
        details=at.view.details,
    )
    expected = {"default": MeasuredSaving(predicted=0.16, reached=0.1)}
    before, saved_before = reached_savings(), saved_dollars(reason)
    assert (await at.savings.measure(measuring(disruption_command))).pools == expected
    assert reached_savings() - before == pytest.approx(0.1 if events else 0.0), "only consolidation counts"
    assert saved_dollars(reason) - saved_before == pytest.approx(0.1), "each reason counts for itself"
    assert at.recorder.events == events
    del at.view.details["new"]
    assert (await at.savings.measure(measuring(disruption_command))).pools == {}
    assert at.recorder.events == events
    at.view.wait_complete = False
    with pytest.raises(ApplicationError, match="not synced yet"):
        await at.savings.measure(measuring(disruption_command))
