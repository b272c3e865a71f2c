"""A process stays inside its share of the account's request limits, and slows down when EC2 says so."""

from __future__ import annotations

import pytest

from activities.ec2.rate_limits import CHANGES, FIRST_PAUSE, LOGGED_EVERY, MAX_PAUSE, Pacer, Throttling, TokenBucket


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def sent_within(pacer: Pacer, clock: Clock, action: str, seconds: float) -> int:
    until, count = clock.now + seconds, 0
    while True:
        pacer.wait(action)
        if clock.now > until:
            return count
        count += 1


def test_a_throttled_call_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A launch that waits would otherwise be silent for two minutes."""
    clock = Clock()
    clock.now = 0.0
    pacer = Pacer(clock, clock.sleep)
    for action in ("CreateFleet", "CreateFleet", "CreateTags"):
        pacer.answered(action, "RequestLimitExceeded", clock.now)
    pacer.answered("RunInstances", "Unauthorized", clock.now)
    assert [record.__dict__["call"] for record in caplog.records] == ["CreateFleet", "CreateTags"]
    clock.now += LOGGED_EVERY
    pacer.answered("CreateFleet", "RequestLimitExceeded", clock.now)
    assert [record.getMessage() for record in caplog.records] == [
        "EC2 throttles a call, which waits for its rate limit"
    ] * 3


def test_h7_a_process_sends_half_of_what_the_account_gets_back() -> None:
    clock = Clock()
    pacer = Pacer(clock, clock.sleep)
    assert sent_within(pacer, clock, "CreateFleet", 0) == CHANGES.burst
    assert 24 <= sent_within(pacer, clock, "CreateFleet", 10) <= 26
    assert sent_within(pacer, clock, "DescribeSubnets", 0) == 40, "each action has a limit of its own"


def test_h7_a_process_describes_instances_once_a_second_even_page_by_page() -> None:
    clock = Clock()
    pacer = Pacer(clock, clock.sleep)
    assert sent_within(pacer, clock, "DescribeInstances", 0) == 1
    assert sent_within(pacer, clock, "DescribeInstances", 10) == 10


def test_h7_a_refusal_makes_an_action_pause_longer_each_time() -> None:
    clock = Clock()
    pacer = Pacer(clock, clock.sleep)
    pauses = []
    for _ in range(8):
        requests = pacer.wait("CreateFleet")
        clock.now += 0.1
        pacer.answered("CreateFleet", "RequestLimitExceeded", requests)
        before = clock.now
        pacer.wait("CreateFleet")
        pauses.append(round(clock.now - before, 3))
        clock.now += 1
    assert pauses[:4] == [FIRST_PAUSE, 2.0, 4.0, 8.0]
    assert pauses[-1] == MAX_PAUSE
    before = clock.now
    pacer.wait("DescribeInstances")
    assert clock.now == before, "other actions go on"


def test_calls_that_were_under_way_make_no_pause_longer() -> None:
    bucket = TokenBucket(CHANGES, 0.0)
    for _ in range(10):
        assert bucket.delay(1.0) == 0
    for _ in range(10):
        bucket.refused(1.0, 2.0)
    assert bucket.delay(2.0) == FIRST_PAUSE


def test_success_makes_the_next_pause_shorter() -> None:
    bucket = TokenBucket(CHANGES, 0.0)
    for at in (10.0, 20.0, 30.0):
        bucket.refused(at - 1, at)
    assert bucket.delay(30.0) == 4 * FIRST_PAUSE
    bucket.served()
    bucket.refused(39.0, 40.0)
    assert bucket.delay(40.0) == 4 * FIRST_PAUSE


def test_aws048_a_pacer_says_what_ec2_throttles_since_when_and_until_when() -> None:
    clock = Clock()
    pacer = Pacer(clock, clock.sleep)
    assert pacer.throttling(["CreateFleet"]) is None
    for _ in range(3):
        requests = pacer.wait("CreateFleet")
        pacer.answered("CreateFleet", "RequestLimitExceeded", requests)
    assert pacer.throttling(["CreateFleet", "DescribeSubnets"]) == Throttling("CreateFleet", lasted=3.0, next_try=4.0)
    assert pacer.throttling(["DescribeSubnets"]) is None
    for _ in range(3):
        pacer.answered("CreateFleet", "", pacer.wait("CreateFleet"))
    assert pacer.throttling(["CreateFleet"]) is None, "EC2 accepts the calls again"


def test_throttling_that_nobody_met_again_is_over() -> None:
    """An action that nothing calls any more has no success that ends its throttling."""
    clock = Clock()
    pacer = Pacer(clock, clock.sleep)
    pacer.answered("CreateFleet", "RequestLimitExceeded", pacer.wait("CreateFleet"))
    clock.now += 3600
    assert pacer.throttling(["CreateFleet"]) is None
    pacer.answered("CreateFleet", "RequestLimitExceeded", pacer.wait("CreateFleet"))
    assert pacer.throttling(["CreateFleet"]) == Throttling("CreateFleet", lasted=0.0, next_try=2.0)
