"""The clients of AWS, where they differ from what botocore makes by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.utils import parse_timestamp

from activities.ec2.client import Ec2, instant
from activities.ec2.errors import EC2Error


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-21T10:20:30.000Z",
        "2026-11-21T10:20:30Z",
        "2026-11-21T10:20:30+09:00",
        "20261121T102030Z",
        "2026-11-21T10:20:30",
        "Sat, 21 Nov 2026 10:20:30 GMT",
        1795256430,
        1795256430.25,
        "1795256430",
    ],
)
def test_instants_are_those_that_botocore_reads(written: Any) -> None:
    """EC2, IAM, SSM, EKS and the price list write them in different ways."""
    assert instant(written) == parse_timestamp(written)


def test_the_common_form_is_read() -> None:
    """As DescribeSpotPriceHistory writes it."""
    assert instant("2026-11-21T10:20:30.000Z") == datetime(2026, 11, 21, 10, 20, 30, tzinfo=UTC)


def test_a_region_that_cannot_be_one_is_an_error_of_aws() -> None:
    """Commands fall back to a table of prices, and the worker says it in a sentence."""
    with pytest.raises(EC2Error, match=r"'us_west_2' is not the name of an AWS region") as refused:
        Ec2("us_west_2")
    assert not refused.value.retryable
