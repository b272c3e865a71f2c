"""An AWS account that moto plays in the test's own process, without anything of the sandbox.

A server of the sandbox's EC2 that ran earlier in the same process leaves its actions in moto, and they would still end
the instances that it had launched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import moto.ec2.urls
import pytest
from moto import mock_aws
from moto.ec2.responses import EC2Response


@contextmanager
def moto_account() -> Iterator[None]:
    """Empty accounts, and keys for them in the environment. The environment names no other endpoint."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.setitem(moto.ec2.urls.url_paths, "{0}/", EC2Response.dispatch)
        with mock_aws():
            yield
