"""The sandbox's interruption queue: what EC2 does to instances arrives there as it would from EventBridge."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from moto.sqs.models import sqs_backends

from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.eventbridge import RETENTION_SECONDS
from tenon.ec2.instances.interruption import Notice, NoticeKind, read_notice
from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


def url(aws: Aws) -> str:
    return str(aws.client("sqs").get_queue_url(QueueName="sandbox")["QueueUrl"])


def taken(aws: Aws, wait: int = 0) -> list[Notice]:
    """What the queue has, in order; each message is deleted."""
    sqs, queue = aws.client("sqs"), url(aws)
    notices: list[Notice] = []
    while True:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=wait)
        if not answer.get("Messages"):
            return notices
        for message in answer["Messages"]:
            notices.append(read_notice(message["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def kinds(notices: list[Notice], instance_id: str) -> list[NoticeKind]:
    assert all(notice.instance_ids in ((), (instance_id,)) and notice.at is not None for notice in notices)
    return [notice.kind for notice in notices]


def test_aws142_143_each_state_of_an_instance_is_reported(aws: Aws) -> None:
    instance = aws.launch()
    aws.clock.pass_(2)
    aws.describe(instance)
    assert kinds(taken(aws), instance) == [NoticeKind.NO_OP, NoticeKind.NO_OP]  # pending, running
    aws.admin.stop_instance(instance)
    aws.clock.pass_(5)
    aws.describe(instance)
    assert kinds(taken(aws), instance) == [NoticeKind.INSTANCE_STOPPED, NoticeKind.INSTANCE_STOPPED]
    aws.ec2.terminate_instances(InstanceIds=[instance])
    aws.clock.pass_(5)
    aws.describe(instance)
    assert kinds(taken(aws), instance) == [NoticeKind.INSTANCE_TERMINATED, NoticeKind.INSTANCE_TERMINATED]


def test_aws140_an_interrupted_spot_instance_ends_after_its_notice(aws: Aws) -> None:
    instance = aws.launch(spot=True)
    aws.clock.pass_(2)
    aws.describe(instance)
    taken(aws)
    aws.admin.interrupt_instance(instance, notice_seconds=120)
    assert kinds(taken(aws), instance) == [NoticeKind.SPOT_INTERRUPTED]
    aws.clock.pass_(119)
    assert aws.describe(instance)["State"]["Name"] == "running"
    aws.clock.pass_(2)
    described = aws.describe(instance)
    assert described["State"]["Name"] == "shutting-down"
    assert described["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert kinds(taken(aws), instance) == [NoticeKind.INSTANCE_TERMINATED]


def test_aws140_an_instance_that_ended_first_is_not_taken_back(aws: Aws) -> None:
    instance = aws.launch(spot=True)
    aws.admin.interrupt_instance(instance, notice_seconds=10)
    aws.ec2.terminate_instances(InstanceIds=[instance])
    aws.clock.pass_(20)
    assert aws.describe(instance)["State"]["Name"] == "terminated"
    with pytest.raises(ValueError, match="has ended the instance"):
        aws.admin.interrupt_instance(instance)
    with pytest.raises(ValueError, match="is not a spot instance"):
        aws.admin.interrupt_instance(aws.launch())


def test_aws141_144_recommendations_and_retirements_are_sent(aws: Aws) -> None:
    instance = aws.launch(spot=True)
    taken(aws)
    aws.admin.recommend_rebalance(instance)
    aws.admin.schedule_retirement(instance)
    assert kinds(taken(aws), instance) == [NoticeKind.REBALANCE_RECOMMENDATION, NoticeKind.SCHEDULED_CHANGE]


def test_messages_that_are_too_old_hide_no_new_ones(aws: Aws) -> None:
    """A sandbox without a reader collects many, and SQS deletes them after the queue's retention period."""
    instance = aws.launch(spot=True)
    taken(aws)
    for _ in range(3):
        aws.admin.recommend_rebalance(instance)
    queue = sqs_backends[ACCOUNT]["us-west-2"].queues["sandbox"]
    for message in queue._messages:
        message.sent_timestamp -= 1000 * (RETENTION_SECONDS + 1)
    aws.admin.schedule_retirement(instance)
    assert kinds(taken(aws), instance) == [NoticeKind.SCHEDULED_CHANGE]


def test_act06_a_call_that_waits_for_messages_keeps_no_other_call_waiting(aws: Aws) -> None:
    taken(aws)
    sqs, queue = aws.client("sqs"), url(aws)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=15)
        assert aws.subnets
        assert not waits.done()
        instance = aws.launch()
        answer: Any = waits.result(20)
    detail = json.loads(answer["Messages"][0]["Body"])["detail"]
    assert detail == {"instance-id": instance, "state": "pending"}
