"""The region of the sandbox's AWS, and what follows from its partition.

A process serves one region: that of TENON_SANDBOX_REGION, or us-west-2. This module imports nothing heavy, because the
command line and the tests use it too.
"""

from __future__ import annotations

import os

from tenon.errors import TenonError

VARIABLE = "TENON_SANDBOX_REGION"
REGION = os.environ.get(VARIABLE) or "us-west-2"
ZONES = tuple(f"{REGION}{letter}" for letter in {"us-west-2": "abcd", "cn-north-1": "ab"}.get(REGION, "abc"))
PARTITION = "aws-cn" if REGION.startswith("cn-") else "aws-us-gov" if REGION.startswith("us-gov-") else "aws"
CURRENCY = "CNY" if PARTITION == "aws-cn" else "USD"
EC2_SERVICE = "ec2.amazonaws.com.cn" if PARTITION == "aws-cn" else "ec2.amazonaws.com"
"""The name by which EC2 takes the role of an instance."""
GLOBAL_REGION = {"aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}.get(PARTITION, "us-east-1")
"""The region of IAM, which each partition has once."""


class UnknownRegionError(TenonError):
    """The sandbox's AWS cannot be in this region. The message is a sentence without a period."""


def check_region(region: str) -> None:
    """Refuse a region that does not exist, or whose partition is not emulated.

    Raises:
        UnknownRegionError: the region is such a one.
    """
    import botocore.session

    session = botocore.session.get_session()
    available_regions = (session.get_available_regions("ec2", name) for name in ("aws", "aws-cn", "aws-us-gov"))
    if not any(region in regions for regions in available_regions):
        raise UnknownRegionError(
            f"{VARIABLE} is {region}, which is not a region of AWS, AWS China or AWS GovCloud: set one such "
            "as us-west-2, or leave it out"
        )
