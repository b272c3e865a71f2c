"""AWS's failures as few, typed exceptions, so that callers decide by kind and never by text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from activities import metrics
from tenon.ec2 import errors as codes
from tenon.lifecycle.messages import OfferingRef

THROTTLED_SECONDS = 120.0
"""For how long a call that EC2 refuses, because there are too many, is sent again; the pauses are the client's."""
Answer = TypeVar("Answer")


class EC2Error(Exception):
    """AWS refused a call. ``retryable`` says whether the same call may succeed later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable

    @property
    def not_found(self) -> bool:
        """Whether the call failed because what it names is not there."""
        return self.code in codes.NOT_FOUND


class Throttled(EC2Error):
    """AWS asks for fewer calls: wait, then repeat."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message, retryable=True)


class InsufficientCapacity(Exception):
    """Nothing that the claim allows can be bought now; ``unavailable`` lists the offerings EC2 refused, if any."""

    def __init__(self, message: str, unavailable: Sequence[OfferingRef] = ()) -> None:
        super().__init__(message)
        self.unavailable = list(unavailable)


class NodeClassNotReady(Exception):
    """The EC2NodeClass cannot be launched from; the sentence says what is missing."""


class NodeClassReadinessUnknown(Exception):
    """Whether the EC2NodeClass can be launched from is not known yet; the sentence says why."""


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Turns botocore's exceptions into those of this module; ``operation`` names the call, in sentence and metric."""
    began = time.perf_counter()
    try:
        yield
    except ClientError as error:
        detail = error.response.get("Error", {})
        code = detail.get("Code", "Unknown")
        metrics.CLOUD_ERRORS.labels("", operation, "aws", code).inc()
        message = f"{operation}: {detail.get('Message', '')}"
        if code in codes.THROTTLED:
            raise Throttled(code, message) from error
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise EC2Error(code, message, retryable=code in codes.RETRYABLE or status >= 500) from error
    except BotoCoreError as error:
        metrics.CLOUD_ERRORS.labels("", operation, "aws", "ConnectionError").inc()
        raise EC2Error("ConnectionError", f"{operation}: {error}", retryable=True) from error
    finally:
        metrics.CLOUD_SECONDS.labels("", operation, "aws").observe(time.perf_counter() - began)


def patiently(operation: str, call: Callable[[], Answer], clock: Callable[[], float] = time.monotonic) -> Answer:
    """The answer of a call that waits for its turn: too many calls of the account are no refusal of this one.

    Raises:
        EC2Error: as `translated`; `Throttled` only when the account's limit is used up for minutes.
    """
    until = clock() + THROTTLED_SECONDS
    while True:
        try:
            with translated(operation):
                return call()
        except Throttled:
            if clock() > until:
                raise
