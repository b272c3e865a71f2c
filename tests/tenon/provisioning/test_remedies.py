"""What a person can do about pods without a node and about what EC2 refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenon.kube.offerings import OfferingKey
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.messages.provisioning import LaunchBreaker, PendingPods, PurchasePause, ShortageWait
from tenon.provisioning.pending_pods import without_place
from tenon.provisioning.remedies import for_breaker, for_pause, for_refused, for_unplaced, for_wait

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "command"),
    [
        (OfferingKey.of_quota("on-demand", "G and VT"), "aws service-quotas request-service-quota-increase"),
        (OfferingKey("spot", "", ""), "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"),
        (OfferingKey("spot", "m5.large", "us-west-2a"), "tenon explain nodepool NAME"),
        (OfferingKey.refusable("reserved", "", "us-west-2a", "cr-1"), "aws ec2 describe-capacity-reservations"),
        (OfferingKey.refusable("spot", "", "us-west-2a", placement_group="pg"), "aws ec2 describe-placement-groups"),
    ],
)
def test_refused_capacity_has_a_remedy_of_its_kind(key: OfferingKey, command: str) -> None:
    assert any(f"`{command}" in remedy for remedy in for_refused([key]))


def test_more_capacity_types_are_the_remedy_for_offerings_only() -> None:
    assert "on-demand capacity" in " ".join(for_refused([OfferingKey("spot", "m5.large", "us-west-2a")]))
    assert "spot capacity" in " ".join(for_refused([OfferingKey("on-demand", "m5.large", "us-west-2a")]))


def test_remedies_for_pods_name_one_of_them() -> None:
    group = PendingPods(why="NodePool web: its taint a is not tolerated", pods=["shop/web-1"], count=3)
    assert "`tenon explain pod shop/web-1`" in for_unplaced(group)[0]
    assert "tenon simulate --live" in for_unplaced(group)[1]
    wait = ShortageWait(
        pool="web", pod="shop/web-1", instance_type="m5.24xlarge", price=4, usual_type="m5.large", usual_price=0.1,
        until=NOW,
    )  # fmt: skip
    assert "`kubectl annotate pod -n shop web-1 tenon.sh/shortage-policy=Buy`" in for_wait(wait)[-1]
    pause = PurchasePause(group="g", pool="web", pods=["shop/db-0"], waiting=1)
    assert "`kubectl describe pod -n shop db-0`" in for_pause(pause)[0]


@pytest.mark.parametrize(
    ("obstacles", "remedy"),
    [
        ([ObstacleKind.CAPACITY], "do nothing if the pods can wait: Tenon asks EC2 again"),
        ([ObstacleKind.LIMITS], "raise the limits of NodePool web-0 or on costs"),
        ([ObstacleKind.SCHEDULE], "`tenon schedule list`"),
        ([ObstacleKind.LAUNCHES], "`kubectl describe nodepool web-0`"),
        ([ObstacleKind.RESERVATIONS], "`aws ec2 describe-capacity-reservations`"),
        ([ObstacleKind.POD], "do what the reason says, because no change of a NodePool helps"),
        ([ObstacleKind.REQUIREMENTS], "change the pods or a NodePool"),
        ([ObstacleKind.TAINTS, ObstacleKind.LIMITS], "raise the limits of NodePool web-1 or on costs"),
    ],
)
def test_pods_without_a_node_have_a_remedy_of_what_keeps_them_off(obstacles: list[ObstacleKind], remedy: str) -> None:
    """If a NodePool would take them later, it is about that one."""
    why = NoPlace(tuple(Clause(f"web-{n}", (Obstacle(kind, "a text"),)) for n, kind in enumerate(obstacles)))
    (group,) = without_place({"shop/a": why})
    assert remedy in for_unplaced(group)[0]


def test_remedies_of_a_long_reason_are_those_of_the_whole_reason() -> None:
    """Its clauses are cut, and those that a message has no room for are counted."""
    refused = Obstacle(ObstacleKind.CAPACITY, "EC2 refuses " + "many offerings " * 30)
    taint = Obstacle(ObstacleKind.TAINTS, "its taint a is not tolerated")
    why = NoPlace(tuple(Clause(f"web-{n}", (refused, taint)) for n in range(90)))
    (group,) = without_place({"shop/a": why})
    assert group.clauses[-1].text.endswith(" more NodePools")
    assert for_unplaced(group)[0].startswith("change the pods or a NodePool")


def test_remedies_for_launches_follow_what_ec2_refuses() -> None:
    refused = LaunchBreaker(pool="web", reason="Unauthorized", message="no", opened_at=NOW, next_probe_at=NOW)
    assert "`kubectl describe nodepool web`" in for_breaker(refused)[0]
    of_class = refused.model_copy(update={"pool": "", "node_class": "default@2"})
    assert "`kubectl describe ec2nodeclass default`" in for_breaker(of_class)[0]
    booting = refused.model_copy(update={"boots": True, "ended": ["i-1", "i-2"]})
    assert for_breaker(booting) == ["see why instances end: `tenon why i-2`"]
    assert for_breaker(refused.model_copy(update={"outage": True}))[0].startswith("do nothing")
