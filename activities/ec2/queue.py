"""Reads messages from an SQS queue, and deletes those that are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from activities.ec2.errors import EC2Error, translated

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAX_MESSAGES = 10
"""The maximum number of messages in one SQS call."""
VISIBILITY_TIMEOUT = 20
"""Seconds for which SQS hides a received message from other readers. SQS shows it again unless it was deleted."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message, and the receipt to delete it with."""

    body: str
    receipt: str


class MessageQueue:
    """One queue, by name. All methods block, so call them from threads. Thread-safe."""

    def __init__(self, sqs: SQSClient, name: str) -> None:
        self.name = name
        self._sqs = sqs
        self._url = ""

    def receive(self, wait_seconds: int) -> list[QueueMessage]:
        """Up to `MAX_MESSAGES` messages. Waits for the first one for at most ``wait_seconds``.

        Raises:
            EC2Error: the queue does not exist, or SQS refused the call.
        """
        url = self._address()
        with translated("ReceiveMessage"):
            answer = self._sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=MAX_MESSAGES,
                VisibilityTimeout=VISIBILITY_TIMEOUT,
                WaitTimeSeconds=wait_seconds,
            )
        return [
            QueueMessage(message.get("Body", ""), message["ReceiptHandle"]) for message in answer.get("Messages", [])
        ]

    def delete(self, messages: Sequence[QueueMessage]) -> int:
        """Delete messages, at most `MAX_MESSAGES`. Return how many SQS has deleted; the others come again.

        Raises:
            EC2Error: SQS refused the call.
        """
        url = self._address()
        with translated("DeleteMessageBatch"):
            answer = self._sqs.delete_message_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": message.receipt} for number, message in enumerate(messages)
                ],
            )
        return len(answer.get("Successful", []))

    def _address(self) -> str:
        if not self._url:
            try:
                with translated("GetQueueUrl"):
                    self._url = self._sqs.get_queue_url(QueueName=self.name)["QueueUrl"]
            except EC2Error as error:
                if not error.not_found:
                    raise
                why = f"the queue {self.name} does not exist: create it, or correct INTERRUPTION_QUEUE"
                raise EC2Error(error.code, why) from error
        return self._url
