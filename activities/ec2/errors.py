"""Maps AWS errors to a few exception types, so that callers handle them by type and never by message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from activities import loggers
from activities.gate import StandingByError
from tenon.ec2.refusals import errors as codes
from tenon.errors import TenonError
from tenon.messages.offerings import OfferingRef

log = loggers.RIGHTS

THROTTLED_SECONDS = 120.0
"""How long a throttled call is retried. The client determines the pauses between attempts."""
NO_CONNECTION = "ConnectionError"
"""The code of a call that did not reach AWS."""
NO_CREDENTIALS = "NoCredentials"
"""The code of a call that was not made because the Pod has no credentials, or could not get them."""
INVALID_REGION = "InvalidRegion"
"""The code of clients that cannot be made, because their region is not a possible name."""
UNSENT = frozenset({NO_CONNECTION, NO_CREDENTIALS})
Answer = TypeVar("Answer")


class EC2Error(TenonError):
    """AWS refused a call. ``retryable`` says whether the same call may succeed later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, operation: str = "") -> None:
        message = codes.without_encoded_text(message)
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable
        self.operation = operation
        """The call that AWS refused, which may be one that gets credentials; empty if AWS did not answer."""

    @property
    def unauthorized(self) -> bool:
        """Whether AWS refused the call for lack of a right."""
        return self.code in codes.UNAUTHORIZED

    @property
    def explained(self) -> str:
        """Which call AWS refused and what allows it, or why AWS did not answer."""
        if self.retryable or not self.operation:
            return str(self)
        return codes.refusal(self.operation, self.code, self.message.removeprefix(f"{self.operation}: "))

    @property
    def not_found(self) -> bool:
        """Whether the call failed because the resource that it names does not exist."""
        return self.code in codes.NOT_FOUND


class CallStoppedError(EC2Error, StandingByError):
    """The call was not sent, because Tenon stands by. It says nothing about EC2."""

    def __init__(self, operation: str, why: str) -> None:
        super().__init__("StandingBy", f"{operation} was not sent: {why}", retryable=True)


class ThrottledError(EC2Error):
    """AWS throttled the call. Wait, then repeat it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message, retryable=True)


class InsufficientCapacityError(TenonError):
    """EC2 has no capacity for anything that the claim allows. ``unavailable`` lists the offerings that it refused."""

    def __init__(self, message: str, unavailable: Sequence[OfferingRef] = ()) -> None:
        super().__init__(message)
        self.unavailable = list(unavailable)


class NodeClassNotReadyError(TenonError):
    """The EC2NodeClass is not ready for launches. The message says what is missing."""


class NodeClassReadinessUnknownError(TenonError):
    """It is not known yet whether the EC2NodeClass is ready for launches. The message says why."""


def log_encoded_text(operation: str, message: str) -> None:
    """Log the encoded part of EC2's message, which no error and no condition shows, for those who may decode it."""
    if encoded := codes.encoded_text(message):
        log.debug(
            "EC2 encoded why it refused a call: read it with aws sts decode-authorization-message",
            extra={"call": operation, "encoded-message": encoded},
        )


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Convert botocore's exceptions to those of this module. Messages and metrics name the call by ``operation``."""
    # Here, because plans from files use this module without AWS's library and metrics.
    from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, NoCredentialsError

    from activities import metrics

    began = time.perf_counter()
    try:
        yield
    except ClientError as error:
        detail = error.response.get("Error", {})
        code = detail.get("Code", "Unknown")
        metrics.CLOUD_ERRORS.labels("", operation, "aws", detail.get("Code") or "unknown").inc()
        message = f"{operation}: {detail.get('Message', '')}"
        log_encoded_text(operation, message)
        if code in codes.THROTTLED:
            raise ThrottledError(code, message) from error
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        # EC2 reports a lack of capacity with HTTP 500.
        retryable = code in codes.RETRYABLE or (status >= 500 and code not in codes.INSUFFICIENT_CAPACITY)
        raise EC2Error(code, message, retryable=retryable, operation=error.operation_name) from error
    except BotoCoreError as error:
        code = NO_CREDENTIALS if isinstance(error, (CredentialRetrievalError, NoCredentialsError)) else NO_CONNECTION
        metrics.CLOUD_ERRORS.labels("", operation, "aws", code).inc()
        raise EC2Error(code, f"{operation}: {error}", retryable=True) from error
    except OSError as error:
        if error.filename is None:
            raise
        # botocore reads the token of the ServiceAccount, and lets the error of a missing file pass.
        metrics.CLOUD_ERRORS.labels("", operation, "aws", NO_CREDENTIALS).inc()
        raise EC2Error(NO_CREDENTIALS, f"{operation}: {error}", retryable=True) from error
    finally:
        metrics.CLOUD_SECONDS.labels("", operation, "aws").observe(time.perf_counter() - began)


def retry_throttled(operation: str, call: Callable[[], Answer], clock: Callable[[], float] = time.monotonic) -> Answer:
    """Make a call and retry it while it is throttled, because throttling does not mean that EC2 refuses this call.

    Raises:
        EC2Error: as in `translated`. `ThrottledError` only if EC2 still throttles the call after `THROTTLED_SECONDS`.
    """
    until = clock() + THROTTLED_SECONDS
    while True:
        try:
            with translated(operation):
                return call()
        except ThrottledError:
            if clock() > until:
                raise
