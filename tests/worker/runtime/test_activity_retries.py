"""An activity that a throttling API server refused is retried when the API server asked for it."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from activities.kubernetes.errors import ApiError, NotFoundError, TooManyRequestsError
from worker.runtime.temporal.activity_retries import RetryAfterInterceptor, retry_delay

POLICY = RetryPolicy(initial_interval=timedelta(seconds=0.2), maximum_interval=timedelta(seconds=30))


@pytest.mark.parametrize(
    ("requests", "attempt", "policy", "seconds"),
    [
        (5, 1, POLICY, 5),
        (1, 6, POLICY, 6.4),
        (1, 1000, POLICY, 30),
        (3600, 1, POLICY, 60),
        (5, 1, None, 5),
    ],
    ids=["asked", "no sooner than usual", "the longest pause", "bounded", "without a policy"],
)
def test_the_next_attempt_waits_as_long_as_the_api_server_asked(
    requests: float, attempt: int, policy: RetryPolicy | None, seconds: float
) -> None:
    assert retry_delay(requests, attempt, policy) == timedelta(seconds=seconds)


class Refused(ActivityInboundInterceptor):
    """An activity that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def execute_activity(self, _input: ExecuteActivityInput) -> None:
        activity.info()
        raise self._error


async def outcome(error: ApiError) -> BaseException:
    """What Temporal gets if an activity raises this."""
    inbound = RetryAfterInterceptor().intercept_activity(Refused(error))
    with pytest.raises((ApiError, ApplicationError)) as caught:
        await ActivityEnvironment().run(inbound.execute_activity, cast("ExecuteActivityInput", None))
    return caught.value


async def test_a_429_of_the_api_server_sets_the_pause_of_the_activity() -> None:
    error = await outcome(TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after=7))
    assert isinstance(error, ApplicationError)
    assert (error.next_retry_delay, error.type) == (timedelta(seconds=7), "TooManyRequestsError")
    assert "slow down" in str(error)


async def test_other_errors_keep_the_retry_policy() -> None:
    refused = NotFoundError(404, "NotFound", "no such thing")
    assert await outcome(refused) is refused
