"""Retries an activity no sooner than the API server asked for.

An overloaded API server says how long to wait (`Retry-After`). Without this, a step repeats its requests after 0.2 s,
and uses up its attempts before the API server serves again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.kubernetes.errors import ApiError

MAX_DELAY = timedelta(seconds=60)
"""No answer of the API server delays an activity for longer."""


def retry_delay(requested_delay: float, attempt: int, policy: RetryPolicy | None) -> timedelta:
    """The pause before the next attempt: what the API server asked for, and no less than the retry policy's pause."""
    if policy is None:
        return min(timedelta(seconds=requested_delay), MAX_DELAY)
    usual = policy.initial_interval * policy.backoff_coefficient ** min(attempt - 1, 30)
    longest = policy.maximum_interval or 100 * policy.initial_interval
    return max(min(timedelta(seconds=requested_delay), MAX_DELAY), min(usual, longest))


class RetryAfterInterceptor(Interceptor):
    """For workers whose activities call the API server."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap the activity."""
        return _Inbound(next)


class _Inbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await super().execute_activity(input)
        except ApiError as error:
            if not error.retry_after:
                raise
            info = activity.info()
            delay = retry_delay(error.retry_after, info.attempt, info.retry_policy)
            raise ApplicationError(str(error), type=type(error).__name__, next_retry_delay=delay) from error
