"""Sends what EC2 and AWS Health report about instances to the cluster's interruption queue, as EventBridge's rules do.

The events have the form of the examples in AWS's documentation of EC2, AWS Health and EventBridge.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any

from sandbox.ec2.region import PARTITION

RETENTION_SECONDS = 300
"""How long the queue of Karpenter's CloudFormation template keeps a message."""
MAX_EVENTS = 5_000
"""Messages that the queue holds at most. A sandbox without a reader would otherwise collect them without end."""


class EventBridge:
    """The event bus of the account, and its queue, which has the name of the cluster."""

    def __init__(self, account: str, region: str, queue: str) -> None:
        self._account = account
        self._region = region
        self.queue = queue
        self.lock = RLock()
        """Held during each call about queues, because the mock's queues are not thread-safe."""

    def create_queue(self) -> None:
        """Create the interruption queue."""
        with self.lock:
            self._backend().create_queue(self.queue, MessageRetentionPeriod=str(RETENTION_SECONDS))

    def state_changed(self, instance_id: str, state: str) -> None:
        """EC2 Instance State-change Notification."""
        arn = f"arn:{PARTITION}:ec2:{self._region}:{self._account}:instance/{instance_id}"
        detail = {"instance-id": instance_id, "state": state}
        self._send("aws.ec2", "EC2 Instance State-change Notification", [arn], detail)

    def spot_interrupted(self, instance_id: str, zone: str) -> None:
        """EC2 Spot Instance Interruption Warning. The ARN of this event has a zone and no account."""
        arn = f"arn:{PARTITION}:ec2:{zone}:instance/{instance_id}"
        detail = {"instance-id": instance_id, "instance-action": "terminate"}
        self._send("aws.ec2", "EC2 Spot Instance Interruption Warning", [arn], detail)

    def rebalance_recommended(self, instance_id: str, zone: str) -> None:
        """EC2 Instance Rebalance Recommendation."""
        arn = f"arn:{PARTITION}:ec2:{zone}:instance/{instance_id}"
        self._send("aws.ec2", "EC2 Instance Rebalance Recommendation", [arn], {"instance-id": instance_id})

    def retirement_scheduled(self, instance_id: str) -> None:
        """AWS Health Event about the retirement of an instance in two weeks."""
        now = datetime.now(UTC)
        code = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"
        detail = {
            "eventArn": f"arn:{PARTITION}:health:{self._region}::event/EC2/{code}/{code}_{uuid.uuid4()}",
            "service": "EC2",
            "eventTypeCode": code,
            "eventTypeCategory": "scheduledChange",
            "eventScopeCode": "ACCOUNT_SPECIFIC",
            "communicationId": uuid.uuid4().hex,
            "startTime": _http_date(now + timedelta(days=14)),
            "endTime": _http_date(now + timedelta(days=14)),
            "lastUpdatedTime": _http_date(now),
            "statusCode": "upcoming",
            "eventRegion": self._region,
            "eventDescription": [
                {"language": "en_US", "latestDescription": "EC2 detected degradation of the underlying hardware."}
            ],
            "affectedEntities": [{"entityValue": instance_id, "lastUpdatedTime": _http_date(now), "status": "PENDING"}],
            "affectedAccount": self._account,
            "page": "1",
            "totalPages": "1",
        }
        self._send("aws.health", "AWS Health Event", [instance_id], detail)

    def _send(self, source: str, detail_type: str, resources: list[str], detail: dict[str, Any]) -> None:
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": detail_type,
            "source": source,
            "account": self._account,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._region,
            "resources": resources,
            "detail": detail,
        }
        self.put(json.dumps(event))

    def put(self, body: str) -> None:
        """Add a message to the queue, unless the queue does not exist or is full."""
        with self._existing_queue() as queue:
            self.drop_expired()
            if queue is not None and len(queue._messages) < MAX_EVENTS:
                queue.add_message(_message(body))

    def drop_expired(self) -> None:
        """Delete the messages that are older than their queue keeps them, as SQS does.

        The mock keeps them and does not show them, and an expired message in front of others hides these too.
        """
        now = time.time()
        with self.lock:
            for queue in self._backend().queues.values():
                sent_before = (now - int(queue.message_retention_period)) * 1000
                expired = [message for message in queue._messages if message.sent_timestamp <= sent_before]
                for message in expired:
                    queue._messages.remove(message)
                    queue.pending_messages.discard(message)

    @contextmanager
    def _existing_queue(self) -> Iterator[Any]:
        """The queue, or None if it does not exist, as in an account that is not seeded yet."""
        with self.lock:
            yield self._backend().queues.get(self.queue)

    def _backend(self) -> Any:
        from moto.sqs.models import sqs_backends

        return sqs_backends[self._account][self._region]


def _http_date(instant: datetime) -> str:
    return instant.strftime("%a, %d %b %Y %H:%M:%S GMT")


def _message(body: str) -> Any:
    """A message as it was sent now. The mock's own call counts the queue's messages each time, which is slow."""
    from moto.sqs.models import Message

    message = Message(str(uuid.uuid4()), body)
    message.mark_sent(delay_seconds=0)
    return message
