"""Ending nodes share their calls to EC2."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from activities.ec2.errors import EC2Error, ThrottledError
from activities.ec2.provider import Ec2Provider
from activities.ec2.termination_batch import Terminations
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.instances import bought
from tests.workflows.waiting import until

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


class Machines:
    """An EC2 where instances end after some looks."""

    def __init__(self, looks: int = 3) -> None:
        self.requests: list[list[str]] = []
        self.looked: list[list[str]] = []
        self.looks = looks
        self.refusal: Callable[[str], str | EC2Error | None] = lambda _: "shutting-down"
        self.blind: list[EC2Error] = []

    def terminate_instances(self, instance_ids: Sequence[str]) -> Mapping[str, str | EC2Error | None]:
        self.requests.append(list(instance_ids))
        return {instance_id: self.refusal(instance_id) for instance_id in instance_ids}

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        self.looked.append(list(instance_ids))
        if self.blind:
            raise self.blind.pop()
        observations = {instance_id: sum(instance_id in look for look in self.looked) for instance_id in instance_ids}
        return {
            instance_id: "terminated" if observations[instance_id] >= self.looks else "shutting-down"
            for instance_id in instance_ids
        }


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


async def ended(machines: Machines, names: Iterable[str]) -> list[str | EC2Error | None]:
    terminations = Terminations(machines, pause=at_once)
    outcomes = await asyncio.gather(*(terminations.terminate(name, 60) for name in names), return_exceptions=True)
    for outcome in outcomes:
        assert outcome is None or isinstance(outcome, (str, EC2Error))
    return outcomes  # type: ignore[return-value]


async def test_aws032_instances_are_ended_together_and_looked_at_together() -> None:
    machines = Machines()
    names = [f"i-{number:03}" for number in range(200)]
    assert await ended(machines, names) == ["terminated"] * 200
    assert [len(call) for call in machines.requests] == [200]
    assert [len(call) for call in machines.looked] == [200, 200, 200]


async def test_h7_a_pass_that_is_throttled_does_not_send_the_termination_again() -> None:
    machines = Machines()
    machines.blind = [
        ThrottledError("RequestLimitExceeded", "slow down"),
        EC2Error("InternalError", "", retryable=True),
    ]
    assert await ended(machines, ["i-1"]) == ["terminated"]
    assert machines.requests == [["i-1"]]


async def test_h7_a_throttled_termination_is_sent_again() -> None:
    machines = Machines()
    answers: list[str | EC2Error] = ["shutting-down", ThrottledError("RequestLimitExceeded", "slow down")]
    machines.refusal = lambda _: answers.pop()
    assert await ended(machines, ["i-1"]) == ["terminated"]
    assert machines.requests == [["i-1"], ["i-1"]]


async def test_one_refused_instance_does_not_fail_the_others() -> None:
    machines = Machines()
    denied = EC2Error("OperationNotPermitted", "it is protected")
    ec2_errors: dict[str, str | EC2Error | None] = {"i-1": "shutting-down", "i-2": denied, "i-3": None}
    machines.refusal = ec2_errors.__getitem__
    assert await ended(machines, ["i-1", "i-2", "i-3"]) == ["terminated", denied, None]


async def test_a_caller_learns_that_ec2_accepted_before_the_instance_is_gone() -> None:
    """Not if EC2 refuses, or does not know the instance."""
    machines = Machines()
    answers: dict[str, str | EC2Error | None] = {
        "i-shuts-down": "shutting-down",
        "i-ends-at-once": "terminated",
        "i-protected": EC2Error("OperationNotPermitted", "it is protected"),
        "i-unknown": None,
    }
    machines.refusal = answers.__getitem__
    accepted: list[str] = []
    terminations = Terminations(machines, pause=at_once)

    async def terminate(name: str) -> str | None:
        async def note() -> None:
            accepted.append(name)

        state = await terminations.terminate(name, 60, note)
        accepted.append(f"{name} is gone")
        return state

    await asyncio.gather(*map(terminate, answers), return_exceptions=True)
    assert sorted(accepted) == [
        "i-ends-at-once",
        "i-ends-at-once is gone",
        "i-shuts-down",
        "i-shuts-down is gone",
        "i-unknown is gone",
    ]
    assert accepted.index("i-shuts-down") < accepted.index("i-shuts-down is gone")


async def test_a_throttled_termination_is_not_accepted_yet() -> None:
    machines = Machines()
    answers: list[str | EC2Error] = ["shutting-down", ThrottledError("RequestLimitExceeded", "slow down")]
    machines.refusal = lambda _: answers.pop()
    requests_then: list[int] = []

    async def note() -> None:
        requests_then.append(len(machines.requests))

    assert await Terminations(machines, pause=at_once).terminate("i-1", 60, note) == "terminated"
    assert requests_then == [2]


async def test_more_than_a_filter_takes_are_looked_at_in_turn() -> None:
    machines = Machines(looks=1)
    names = [f"i-{number:03}" for number in range(450)]
    assert await ended(machines, names) == ["terminated"] * 450
    assert [len(call) for call in machines.looked] == [200, 200, 50]


async def test_h7_a_termination_that_hangs_holds_up_no_other() -> None:
    """EC2 does not answer one call, which takes minutes until it fails."""
    machines, answers = Machines(), threading.Event()

    def hangs(instance_id: str) -> str:
        if instance_id == "i-1":
            answers.wait()
        return "shutting-down"

    machines.refusal = hangs
    terminations = Terminations(machines, pause=at_once)
    first = asyncio.create_task(terminations.terminate("i-1", 60))

    async def asked() -> bool:
        return machines.requests == [["i-1"]]

    try:
        await until(asked)
        assert await terminations.terminate("i-2", 10) == "terminated"
        assert machines.requests == [["i-1"], ["i-2"]], "the call that hangs is not repeated"
    finally:
        answers.set()
    assert await first == "terminated"


async def test_a_call_that_fails_unexpectedly_reaches_who_waits_for_it() -> None:
    machines = Machines()

    def fails(_: str) -> str:
        raise ValueError("what is this")

    machines.refusal = fails
    (outcome,) = await ended(machines, ["i-1"])
    assert isinstance(outcome, EC2Error)
    assert outcome.retryable
    assert "what is this" in str(outcome)


async def test_patience_ends_with_the_last_state() -> None:
    terminations = Terminations(Machines(looks=10**9), pause=at_once)

    async def ended_with_it() -> bool:
        state = await terminations.terminate("i-1", 0.2)
        assert state in ("", "shutting-down")
        return bool(state)  # a busy machine may not have asked yet

    await until(ended_with_it)
    assert not terminations._open, "an instance without a waiting caller is not looked at"


@pytest.mark.integration
def test_aws032_an_unknown_instance_does_not_save_the_others(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """EC2 refuses a whole call for one id that it does not know: as unauthorized, because it has no tags."""
    living = [bought(provider, ready_class, f"ends-{number}") for number in range(3)]
    removal = ["i-0123456789abcdef0", "i-0123456789abcdef1"]
    server.world.calls.clear()
    outcomes = provider.terminate_instances([removal[0], *living, removal[1]])
    assert {item: outcomes[item] for item in removal} == dict.fromkeys(removal)
    assert {outcomes[item] for item in living} == {"shutting-down"}
    assert len(server.world.calls.listing("TerminateInstances")) == 2


@pytest.mark.integration
def test_a_refusal_names_the_instance_that_it_is_about(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    from sandbox.ec2.faults import Fault

    first, second = (bought(provider, ready_class, f"refused-{number}") for number in range(2))
    for _ in range(2):  # the call for both, and the one for the first alone
        server.world.faults.add(Fault(action="TerminateInstances", code="OperationNotPermitted", status=400))
    outcomes = provider.terminate_instances([first, second])
    assert isinstance(outcomes[first], EC2Error)
    assert outcomes[second] == "shutting-down"
