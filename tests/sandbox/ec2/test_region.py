"""A misspelled region of the sandbox ends it with a sentence, not with a traceback of the mock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from sandbox.ec2.region import UnknownRegionError, check_region
from sandbox.errors import SandboxError

SENTENCE = (
    "TENON_SANDBOX_REGION is us-west-9, which is not a region of AWS, AWS China or AWS GovCloud: set one such as "
    "us-west-2, or leave it out"
)


@pytest.mark.parametrize("region", ["us-west-2", "eu-central-1", "cn-northwest-1", "us-gov-east-1"])
def test_regions_of_the_three_partitions_are_known(region: str) -> None:
    check_region(region)


@pytest.mark.parametrize("region", ["us-west-9", "us-west-2a", "US-WEST-2", "us-iso-east-1"])
def test_another_region_is_refused(region: str) -> None:
    with pytest.raises(UnknownRegionError, match=f"^TENON_SANDBOX_REGION is {region}, which is not a region of AWS"):
        check_region(region)


@pytest.mark.integration
def test_the_server_of_an_unknown_region_says_so_and_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox.ec2.server", "--port", "0", "--state", str(tmp_path)]
    variables = {**os.environ, "TENON_SANDBOX_REGION": "us-west-9"}
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"The sandbox's EC2 cannot start: {SENTENCE}\n"


def test_a_sandbox_in_an_unknown_region_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as caught:
        Sandbox.start(tmp_path, region="us-west-9")
    assert str(caught.value) == f"{SENTENCE}."
    assert list(tmp_path.iterdir()) == []
