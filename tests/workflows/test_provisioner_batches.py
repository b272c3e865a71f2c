"""The numbers of the provisioner's batches, from which the names of NodeClaims follow; on a real Temporal server."""

from __future__ import annotations

from functools import partial

import pytest
from temporalio.testing import WorkflowEnvironment

from tenon.messages.provisioning import LaunchReport
from tests.workflows.refusing_ec2 import Planning, provisioner
from tests.workflows.waiting import until
from workflows.provisioner import MAX_REPORTS, ProvisionerWorkflow

pytestmark = pytest.mark.integration

PLANS = 10
"""More than fit into a second: a run that counted from its own start would repeat a number."""


async def test_each_plan_has_its_own_number_also_after_the_run_has_continued_as_new(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Two plans with one number would take each other's NodeClaims for their own. The last plan stays known."""
    planning = Planning()

    async def plans(times: int) -> None:
        async def planned() -> bool:
            return len(planning.planned) >= times

        planning.pods.set()
        await until(planned)

    async with provisioner(temporal, cluster, planning) as handle:
        for times in range(1, PLANS + 1):
            await plans(times)
            await until(partial(asked, planning, times + 1))
        first = (await handle.describe()).run_id
        for _ in range(MAX_REPORTS):
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport())

        async def continued() -> bool:
            return (await handle.describe()).run_id != first and await asked(planning, PLANS + 2)

        await until(continued)
        last = await handle.query(ProvisionerWorkflow.last)
        await plans(PLANS + 1)
    numbers = [value.batch for value in planning.planned]
    assert numbers == sorted(set(numbers))
    assert last is not None
    assert last.batch == numbers[-2]


async def test_a_plan_is_numbered_by_the_time_so_that_a_reset_run_repeats_no_number(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """EC2 knows the tokens of launch groups, which follow from the number, and NodeClaims have the names."""
    planning = Planning()

    async def planned() -> bool:
        return bool(planning.planned)

    async with provisioner(temporal, cluster, planning, batch=7) as handle:
        planning.pods.set()
        await until(planned)
        run = await handle.describe()
    (plan,) = planning.planned
    assert run.start_time is not None
    assert plan.batch >= int(run.start_time.timestamp())


async def asked(planning: Planning, times: int) -> bool:
    """Whether the workflow has asked for so many batches."""
    return len(planning.requests) >= times
