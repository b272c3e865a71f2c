"""What a command says it saves."""

from __future__ import annotations

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.disruption import (
    MeasuredSaving,
)
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.running_command import (
    ALL_STEPS,
    running,
    signals_of,
)
from workflows import names

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("reason", "signals"), [(Reason.UNDERUTILIZED, ["postpone", "saved"]), (Reason.DRIFTED, ["postpone"])]
)
async def test_wsh02_a_command_says_what_it_saves_and_what_was_predicted(
    temporal: WorkflowEnvironment, cluster: str, reason: Reason, signals: list[str]
) -> None:
    """On its page and in its result. Only consolidation is judged by it."""
    steps = FakeSteps()
    steps.refused = {"default-2": "kept until tomorrow"}
    steps.savings = {
        "default": MeasuredSaving(predicted=0.2, reached=0.15),
        "other": MeasuredSaving(predicted=0.1, reached=-0.01),
    }
    changed_command = evolve(command(), reason=reason.value)
    async with running(temporal, cluster, steps, changed_command) as handle:
        result = await handle.result()
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        found_by = (await handle.describe()).typed_search_attributes
    assert result.accepted == ["default-1"]
    assert found_by[names.SAVING] == pytest.approx(0.14)
    assert result.saving == MeasuredSaving(predicted=0.3, reached=0.14)
    assert steps.calls == ALL_STEPS
    assert steps.measured == [["default-1"]]
    assert "saves 0.1400 USD/h; 0.3000 USD/h was predicted" in page.current_details
    assert await signals_of(handle) == signals


async def test_wsh02_a_node_that_left_for_another_reason_counts_for_what_a_command_saves(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Its replacement stays, and its price was part of the prediction."""
    steps = FakeSteps()
    steps.refused, steps.leaving = {"default-2": "already leaving: Expired"}, ["default-2"]
    async with running(temporal, cluster, steps, command()) as handle:
        await handle.result()
    assert steps.measured == [["default-1", "default-2"]]


@pytest.mark.parametrize("fails", [False, True], ids=["no-price", "error"])
async def test_wsh02_a_command_whose_saving_is_not_known_still_ends_well(
    temporal: WorkflowEnvironment, cluster: str, fails: bool
) -> None:
    steps = FakeSteps()
    if fails:
        steps.fails[ActivityName.MEASURE_SAVING] = ApplicationError("no prices", non_retryable=True)
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
    assert (result.accepted, result.saving, result.failure) == (["default-1", "default-2"], None, "")
    assert await signals_of(handle) == []


async def test_wsh02_a_command_that_is_undone_saves_nothing_and_is_not_measured(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.refused = {"default-1": "kept", "default-2": "kept"}
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
        found_by = (await handle.describe()).typed_search_attributes
    assert result.saving is None
    assert steps.measured == []
    assert found_by[names.SAVING] == 0.0
