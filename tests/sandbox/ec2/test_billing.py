"""The bill of the sandbox's account: instances are charged while they run."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from sandbox.ec2.instances import RECLAIMED
from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration

PRICE = Decimal("0.0816")
"""Of m7g.large in us-west-2, dollars an hour on demand."""


def line_of(aws: Aws, instance: str) -> dict[str, Any]:
    return next(line for line in aws.admin.bill()["lines"] if line["instance"] == instance)


def run(aws: Aws, seconds: float, **options: Any) -> str:
    """Launch an instance, and let it run for a time."""
    launched = aws.launch(**options)
    aws.clock.pass_(1)  # pending
    aws.admin.instances()
    aws.clock.pass_(seconds)
    return launched


def test_an_instance_that_ran_for_a_short_time_costs_a_minute(aws: Aws) -> None:
    launched = run(aws, 12)
    aws.ec2.terminate_instances(InstanceIds=[launched])
    line = line_of(aws, launched)
    assert (line["seconds"], line["running"]) == (60, False)
    assert Decimal(line["charge"]) == PRICE * 60 / 3600


def test_neither_pending_nor_shutting_down_is_charged_and_begun_seconds_count(aws: Aws) -> None:
    launched = run(aws, 99.5)
    aws.ec2.terminate_instances(InstanceIds=[launched])
    aws.clock.pass_(1000)
    assert line_of(aws, launched)["seconds"] == 100


def test_the_bill_keeps_instances_that_ec2_has_forgotten_and_adds_those_that_run(aws: Aws) -> None:
    ended = run(aws, 100)
    aws.ec2.terminate_instances(InstanceIds=[ended])
    aws.clock.pass_(1000)
    running = run(aws, 3600)
    assert ended not in {instance["id"] for instance in aws.admin.instances()}
    bill = aws.admin.bill()
    assert Decimal(bill["total"]) == PRICE * 100 / 3600 + PRICE
    assert [line["running"] for line in bill["lines"] if line["instance"] == running] == [True]


def test_spot_capacity_has_its_own_price_and_is_free_if_ec2_reclaims_it_in_the_first_hour(aws: Aws) -> None:
    first, second = run(aws, 100, spot=True), run(aws, 100, spot=True)
    assert Decimal(line_of(aws, first)["price"]) < PRICE
    aws.server.world.book.lose(first, *RECLAIMED)
    aws.ec2.terminate_instances(InstanceIds=[second])
    assert (line_of(aws, first)["seconds"], line_of(aws, second)["seconds"]) == (0, 100)


def test_a_reset_empties_the_bill(aws: Aws) -> None:
    run(aws, 10)
    aws.admin.reset()
    assert aws.admin.bill() == {"lines": [], "total": "0"}
