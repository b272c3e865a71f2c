"""Requests to AWS are counted and timed under the names of the SDK that Karpenter uses (MET-61)."""

from __future__ import annotations

from typing import Any

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ClientError
from prometheus_client import REGISTRY

from activities.ec2 import request_metrics

LABELS = {"service": "EC2", "action": "DescribeInstances"}


class Body:
    """The body of an answer."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: object) -> list[bytes]:
        return [self._content]


def value(name: str, code: str) -> float:
    return REGISTRY.get_sample_value(f"aws_sdk_go_request_{name}", {**LABELS, "code": code}) or 0.0


def test_met61_a_request_counts_once_and_each_of_its_attempts_too() -> None:
    answers = [503, 200]
    before = [value("total", "200"), value("attempt_total", "503"), value("retry_count_sum", "200")]

    def answer(request: object, **_: object) -> Any:
        return AWSResponse("https://ec2", answers.pop(0), HTTPHeaders(), Body(b"<DescribeInstancesResponse/>"))

    session = botocore.session.get_session()
    request_metrics.attach(session)
    session.set_credentials("key", "secret")
    client: Any = session.create_client(
        "ec2", "us-west-2", config=Config(retries={"mode": "standard", "total_max_attempts": 2})
    )
    client.meta.events.register("before-send.ec2", answer)
    client.describe_instances()
    after = [value("total", "200"), value("attempt_total", "503"), value("retry_count_sum", "200")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1.0, 1.0, 1.0]
    assert value("attempt_duration_seconds_count", "200") >= 1.0


def test_met61_a_refused_request_counts_with_its_code() -> None:
    before = value("total", "403")

    def answer(request: object, **_: object) -> Any:
        return AWSResponse(
            "https://ec2",
            403,
            HTTPHeaders(),
            Body(b"<Response><Errors><Error><Code>No</Code></Error></Errors></Response>"),
        )

    session = botocore.session.get_session()
    request_metrics.attach(session)
    session.set_credentials("key", "secret")
    client: Any = session.create_client("ec2", "us-west-2")
    client.meta.events.register("before-send.ec2", answer)
    try:
        client.describe_instances()
    except ClientError:
        assert value("total", "403") == before + 1.0
    else:
        raise AssertionError("EC2 refused the request")
