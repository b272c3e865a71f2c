"""The clients of AWS, where they differ from what botocore makes by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.utils import parse_timestamp

from activities.ec2.client import instant


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
