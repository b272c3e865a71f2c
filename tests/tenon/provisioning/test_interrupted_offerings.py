"""The offerings that plans avoid because the NodeClaims that leave say that EC2 takes them back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.timestamps import format_instant
from tenon.messages.node import Removal
from tenon.node.leave_text import with_removal
from tenon.provisioning.interrupted_offerings import interrupted_offerings
from tests.activities.provisioning.fake_view import START
from tests.worker.cache.objects import claim

SPOT = {labels.CAPACITY_TYPE: "spot", labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a"}


def leaving(*reasons: str, deleted: bool = True, offering: Mapping[str, str] = SPOT) -> ClaimRecord:
    """A NodeClaim on spot capacity that leaves for these reasons."""
    annotations: dict[str, str] = {}
    for reason in reasons:
        annotations |= with_removal(annotations, Removal(reason=reason), deleting=False)
    deletion = {"deletionTimestamp": format_instant(START)} if deleted else {}
    return claim("a", meta={"labels": dict(offering), "annotations": annotations, **deletion})


@pytest.mark.parametrize(
    ("reasons", "avoided"),
    [
        (["spot_interrupted"], True),
        (["rebalance_recommendation"], True),
        (["expired", "spot_interrupted"], True),
        (["expired"], False),
        (["instance_stopped"], False),
        ([], False),
    ],
)
def test_aws140_plans_avoid_where_ec2_takes_capacity_back(reasons: list[str], avoided: bool) -> None:
    offerings = interrupted_offerings([leaving(*reasons)], START + timedelta(seconds=1))
    until = START + timedelta(minutes=3)
    assert offerings == ({OfferingKey("spot", "m5.large", "us-west-2a"): until} if avoided else {})


def test_a_node_that_drains_for_long_does_not_close_its_offering_for_as_long() -> None:
    interrupted = leaving("spot_interrupted")
    assert interrupted_offerings([interrupted], START + timedelta(minutes=2, seconds=59))
    assert not interrupted_offerings([interrupted], START + timedelta(minutes=3))


def test_a_nodeclaim_that_stays_closes_nothing() -> None:
    """Its deletion may have failed after the reason was written."""
    assert not interrupted_offerings([leaving("spot_interrupted", deleted=False)], START)


def test_a_nodeclaim_without_an_instance_closes_nothing() -> None:
    assert not interrupted_offerings([leaving("spot_interrupted", offering={})], START)
