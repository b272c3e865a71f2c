"""Keeps the calls of one process within the request limits of its AWS account.

EC2 has one token bucket per account, region and action, which all clusters of the account share. A process uses at most
half of a bucket's refill rate, so that another process gets its share. It describes instances at most once a second,
because one call answers for many nodes. A throttled call pauses the calls of its action, longer each time. A call that
succeeds shortens the next pause.

botocore's adaptive mode has one limit for all actions of a client, so that a throttled launch would also slow down
describe calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activities import loggers
from tenon.ec2.refusals import errors as codes

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

log = loggers.RATE_LIMITS

LOGGED_EVERY = 60.0
"""Seconds between two log lines about one throttled action."""
FIRST_PAUSE = 1.0
MAX_PAUSE = 30.0
READING = ("Describe", "Get", "List")
_ROUNDING = 1e-6
"""The fraction of a token that may be missing because of rounding. Without it, the last wait would never end."""
_SENT = "tenon_sent"


@dataclass(frozen=True, slots=True)
class BucketShare:
    """The part of a bucket that one process uses: calls per second, and the burst of calls after a quiet period."""

    rate: float
    burst: float


CHANGES = BucketShare(2.5, 25)
READS = BucketShare(8, 40)
TAGS = BucketShare(4, 40)
INSTANCE_READS = BucketShare(1, 1)
"""The share of DescribeInstances. `request_batching` spaces requests, and this share spaces their pages and retries."""


def share_of(action: str) -> BucketShare:
    """The share of an action's bucket that one process uses."""
    if action == "DescribeInstances":
        return INSTANCE_READS
    if action.startswith(READING):
        return READS
    return TAGS if action in ("CreateTags", "DeleteTags") else CHANGES


@dataclass(frozen=True, slots=True)
class Throttling:
    """EC2 throttles a call: for how many seconds by now, and in how many seconds it is tried next."""

    call: str
    lasted: float
    next_try: float


class TokenBucket:
    """The token bucket and the pause of one action."""

    def __init__(self, share: BucketShare, now: float) -> None:
        self._share = share
        self._tokens = share.burst
        self._since = now
        self._pause = 0.0
        self._paused_at = now
        self._paused_until = now
        self._throttled_since = now

    def delay(self, now: float) -> float:
        """Seconds until a call may be sent. 0 means that the call may be sent now, and its token is taken."""
        if now < self._paused_until:
            return self._paused_until - now
        self._tokens = min(self._share.burst, self._tokens + (now - self._since) * self._share.rate)
        self._since = now
        if self._tokens < 1 - _ROUNDING:
            return (1 - self._tokens) / self._share.rate
        self._tokens -= 1
        return 0.0

    def refused(self, sent_at: float, now: float) -> None:
        """Record that EC2 throttled a call. Calls that were sent before the last pause began do not extend it."""
        if self._pause and sent_at <= self._paused_at:
            return
        if not self._throttled(now):
            self._throttled_since = now
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), MAX_PAUSE)
        self._paused_at, self._paused_until = now, now + self._pause
        self._tokens, self._since = 1.0, self._paused_until

    def served(self) -> None:
        """Record that EC2 accepted a call, which makes the next pause shorter."""
        self._pause = self._pause / 2 if self._pause > FIRST_PAUSE else 0.0

    def throttling(self, call: str, now: float) -> Throttling | None:
        """How long EC2 has throttled the action, or None if it does not."""
        if not self._throttled(now):
            return None
        return Throttling(call, now - self._throttled_since, max(0.0, self._paused_until - now))

    def _throttled(self, now: float) -> bool:
        """Whether the pauses are not over. An action that nothing calls any more has no success that ends them."""
        return bool(self._pause) and now - self._paused_until <= MAX_PAUSE


class Pacer:
    """Limits the rate of one client, per action. Thread-safe. A call that must wait blocks its thread in ``sleep``."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._buckets: dict[str, TokenBucket] = {}
        self._logged: dict[str, float] = {}
        """By action: when a log line last said that EC2 throttles it."""

    def attach(self, client: EC2Client) -> None:
        """Limit the rate of every request of the client, including botocore's retries."""
        # Wait before botocore signs the request, because a signature is valid for minutes only.
        client.meta.events.register_first("request-created.ec2", self._before)
        client.meta.events.register("response-received.ec2", self._after)

    def wait(self, action: str) -> float:
        """Wait until a call of the action may be sent, and return the time of the clock."""
        while True:
            with self._lock:
                now = self._clock()
                delay = self._bucket(action, now).delay(now)
            if not delay:
                return now
            self._sleep(delay)

    def answered(self, action: str, code: str, sent_at: float) -> None:
        """Record the outcome of a call that was sent at ``sent_at``. An empty code means success."""
        with self._lock:
            now = self._clock()
            bucket = self._bucket(action, now)
            if code in codes.THROTTLED:
                bucket.refused(sent_at, now)
            elif not code:
                bucket.served()
            logs = code in codes.THROTTLED and now - self._logged.get(action, -LOGGED_EVERY) >= LOGGED_EVERY
            if logs:
                self._logged[action] = now
        if logs:
            log.warning("EC2 throttles a call, which waits for its rate limit", extra={"call": action, "error": code})

    def throttling(self, actions: Iterable[str]) -> Throttling | None:
        """What EC2 throttles among these actions, the longest; None if it throttles none of them."""
        with self._lock:
            now = self._clock()
            present = [self._buckets[action].throttling(action, now) for action in actions if action in self._buckets]
        return max(
            (throttling for throttling in present if throttling is not None),
            key=lambda throttling: throttling.lasted,
            default=None,
        )

    def _bucket(self, action: str, now: float) -> TokenBucket:
        if action not in self._buckets:
            self._buckets[action] = TokenBucket(share_of(action), now)
        return self._buckets[action]

    def _before(self, request: Any, operation_name: str, **_: Any) -> None:
        request.context[_SENT] = self.wait(operation_name)

    def _after(self, event_name: str, parsed_response: Any, context: Any, **_: Any) -> None:
        if parsed_response is not None:
            code = (parsed_response.get("Error") or {}).get("Code", "")
            self.answered(event_name.rpartition(".")[2], code, context.get(_SENT, 0.0))
