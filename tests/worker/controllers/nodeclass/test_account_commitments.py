"""When the leader reads Reserved Instances and Savings Plans, and what it does without the right to."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import pytest

from activities.ec2.errors import EC2Error
from activities.provisioning.account_commitments import MAX_AGE, CommitmentStore
from tenon.apis import labels
from tenon.ec2.commitments.coverage import AccountCommitments
from tenon.kube.claim_record import ClaimRecord, provider_id_of
from tenon.scheduling.model import Commitment
from worker.controllers.nodeclass.account_commitments import AFTER_REFUSAL, EVERY, AccountCommitmentsController

pytestmark = pytest.mark.asyncio(loop_scope="function")

PLAN = Commitment("Savings Plan sp-1", 1_000_000, {"m5.large": 57_600})


class Cache:
    """The NodeClaims of a cluster."""

    def __init__(self) -> None:
        body: dict[str, Any] = {
            "metadata": {"name": "n"},
            "status": {"providerID": provider_id_of("us-west-2a", "i-1")},
        }
        self.claims = [ClaimRecord.of(body), ClaimRecord.of({"metadata": {"name": "not-launched"}})]


def running_node() -> ClaimRecord:
    own = {labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a", labels.CAPACITY_TYPE: "on-demand"}
    status = {"providerID": provider_id_of("us-west-2a", "i-2")}
    return ClaimRecord.of({"metadata": {"name": "on-demand", "labels": own}, "status": status})


class Account:
    """An account with a Savings Plan; a leader, and a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.reads: list[tuple[str, Collection[str]]] = []
        self.error: EC2Error | None = None
        self.store = CommitmentStore(lambda: self.seconds)
        cache: Any = Cache()
        self.controller = AccountCommitmentsController(cache, self.store, self, "sandbox", lambda: self.seconds)

    def read(self, cluster: str, own_ids: Collection[str]) -> AccountCommitments:
        self.reads.append((cluster, own_ids))
        if self.error is not None:
            raise self.error
        return AccountCommitments((PLAN,))

    async def after(self, seconds: float) -> int:
        """How often the account was read after so many seconds more."""
        self.seconds += seconds
        before = len(self.reads)
        await self.controller.reconcile(())
        return len(self.reads) - before


async def test_the_account_is_read_every_ten_minutes_with_the_clusters_instances() -> None:
    account = Account()
    assert account.store.coverage(()).remaining == ()
    assert await account.after(0) == 1
    assert account.reads == [("sandbox", frozenset({"i-1"}))]
    assert account.store.coverage(()).remaining == (PLAN,)
    assert await account.after(EVERY - 1) == 0
    assert await account.after(1) == 1


async def test_an_error_that_is_not_about_rights_leaves_what_was_read_and_is_tried_again_at_once() -> None:
    account = Account()
    await account.after(0)
    account.error = EC2Error("InternalServerException", "not now", operation="DescribeSavingsPlans")
    with pytest.raises(EC2Error):
        await account.after(EVERY)
    assert account.store.coverage(()).remaining == (PLAN,)
    account.error = None
    assert await account.after(0) == 1, "the pause after a failure is that of all controllers"
    assert await account.after(EVERY - 1) == 0


async def test_new_nodes_use_what_was_read_for_half_an_hour_of_failures() -> None:
    """Others may use it up. The nodes that it covers stay covered, so that consolidation does not replace them."""
    account = Account()
    await account.after(0)
    account.error = EC2Error("InternalServerException", "not now", operation="DescribeSavingsPlans")
    with pytest.raises(EC2Error):
        await account.after(MAX_AGE - 1)
    assert account.store.coverage(()).remaining == (PLAN,)
    with pytest.raises(EC2Error):
        await account.after(1)
    assert account.store.coverage(()).remaining == ()
    assert account.store.coverage([running_node()]).covered == {"on-demand": PLAN.name}
    account.error = None
    await account.after(0)
    assert account.store.coverage(()).remaining == (PLAN,)


async def test_a_line_says_when_plans_know_how_many_there_are(caplog: pytest.LogCaptureFixture) -> None:
    account = Account()
    caplog.set_level(logging.INFO)
    await account.after(0)
    await account.after(EVERY)
    account.error = EC2Error("AccessDeniedException", "not authorized", operation="DescribeSavingsPlans")
    await account.after(EVERY)
    account.error = None
    await account.after(AFTER_REFUSAL)
    message = "The controller read the account's Reserved Instances and Savings Plans"
    counts = [record.__dict__["count"] for record in caplog.records if record.getMessage() == message]
    assert counts == [1, 1], "after the first read, and again after a refusal"


async def test_without_the_right_one_line_says_so_and_nothing_is_covered(caplog: pytest.LogCaptureFixture) -> None:
    account = Account()
    await account.after(0)
    account.error = EC2Error("AccessDeniedException", "not authorized", operation="DescribeSavingsPlans")
    caplog.set_level(logging.INFO)
    assert await account.after(EVERY) == 1
    assert account.store.coverage(()).remaining == ()
    assert await account.after(AFTER_REFUSAL - 1) == 0
    assert await account.after(1) == 1
    lines = [record.getMessage() for record in caplog.records if "Savings Plans" in record.getMessage()]
    assert lines == ["AWS does not let the worker read Reserved Instances and Savings Plans, so plans do not use them"]
