"""When the leader reads the account's vCPU quotas, and what it does without the right to."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.known_quotas import KnownQuotas, VcpuQuota
from tenon.kube.offerings import OfferingKey
from worker.controllers.nodeclass.account_quotas import (
    AFTER_REFUSAL,
    EVERY,
    EVERY_WHILE_PODS_WAIT,
    AccountQuotasController,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GPU = (labels.ON_DEMAND, "G and VT")
USED_UP = OfferingKey.of_quota(*GPU)

pytestmark = pytest.mark.asyncio(loop_scope="function")


class Account:
    """An account whose GPU quota has this limit; a leader, and a clock."""

    def __init__(self, limit: int = 0) -> None:
        self.limit, self.seconds, self.reads = limit, 0.0, 0
        self.error: EC2Error | None = None
        self.refusals = LaunchRefusals(now=lambda: NOW + timedelta(seconds=self.seconds))
        self.controller = AccountQuotasController(cast("Any", None), self.refusals, self, lambda: self.seconds)

    def read(self) -> KnownQuotas:
        self.reads += 1
        if self.error is not None:
            raise self.error
        read_at = NOW + timedelta(seconds=self.seconds)
        return KnownQuotas(read_at, {GPU: VcpuQuota(self.limit, 0)}, {"g4dn.xlarge": 4})

    async def after(self, seconds: float) -> int:
        """How often the quotas were read after so many seconds more."""
        self.seconds += seconds
        before = self.reads
        await self.controller.reconcile(())
        return self.reads - before


async def test_a_quota_that_is_used_up_is_avoided_until_it_is_raised() -> None:
    account = Account()
    await account.after(0)
    assert OfferingKey(labels.ON_DEMAND, "g4dn.xlarge", "us-west-2a") in account.refusals.unavailable()
    assert OfferingKey("spot", "g4dn.xlarge", "us-west-2a") not in account.refusals.unavailable()
    assert account.refusals.due() == frozenset(), "no NodeClaim probes what is known"
    account.limit = 64
    assert await account.after(EVERY)
    assert account.refusals.unavailable() == frozenset()


async def test_a_quota_that_was_raised_counts_although_the_workflow_still_names_it() -> None:
    """The workflow has it from an earlier plan. A refusal of EC2 counts all the same."""
    account = Account(limit=64)
    await account.after(0)
    until = NOW + timedelta(minutes=2)
    account.refusals.replace_unavailable({USED_UP: Backoff(until)})
    assert account.refusals.unavailable() == frozenset()
    account.refusals.replace_unavailable({USED_UP: Backoff(until, NOW, 1)})
    assert set(account.refusals.unavailable()) == {USED_UP}


async def test_quotas_are_read_more_often_while_pods_wait_for_one() -> None:
    account = Account()
    await account.after(0)
    assert not await account.after(EVERY_WHILE_PODS_WAIT)
    account.refusals.quota_lacks()
    assert await account.after(1)
    assert not await account.after(EVERY_WHILE_PODS_WAIT - 1)


async def test_an_error_that_is_not_about_rights_leaves_what_was_read_and_is_retried() -> None:
    account = Account()
    await account.after(0)
    account.error = EC2Error("ValidationError", "not now", operation="ListServiceQuotas")
    with pytest.raises(EC2Error):
        await account.after(EVERY)
    assert USED_UP in account.refusals.unavailable()
    account.error = None
    assert await account.after(0), "the pause after a failure is that of all controllers"
    assert not await account.after(EVERY - 1)


async def test_without_the_right_one_line_says_so_and_ec2_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    account = Account()
    account.error = EC2Error("AccessDeniedException", "not authorized", operation="ListServiceQuotas")
    caplog.set_level(logging.INFO)
    for _ in range(3):
        await account.after(AFTER_REFUSAL)
    assert account.reads == 3
    lines = [record.getMessage() for record in caplog.records if "quotas" in record.getMessage()]
    assert lines == ["AWS does not let the worker read the account's vCPU quotas, so EC2 is asked and may refuse"]
    assert account.refusals.unavailable() == frozenset()
