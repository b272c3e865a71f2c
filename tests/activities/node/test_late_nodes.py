"""An instance that runs for three minutes without a Node is reported with what its console says (LIF-03, LIF-05)."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error, ThrottledError
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.consoles import Consoles
from activities.node.registration import register
from tenon.messages.node_steps import NodeInput, RegisterResult
from tests.activities.node.joining import WANTED, joined
from tests.activities.node.world import PROVIDER_ID, REF, UNREGISTERED, World, claim, node

ALONE = NodeInput(claim=REF, provider_id=PROVIDER_ID)


class Console:
    """An EC2 that has a console for the one instance; ``requests`` counts the calls."""

    def __init__(self, output: str | Exception = "") -> None:
        self.output = output
        self.requests = 0

    def console_output(self, instance_id: str) -> str:
        assert instance_id == "i-1"
        self.requests += 1
        if isinstance(self.output, Exception):
            raise self.output
        return self.output


def late(minutes: float = 3) -> World:
    """A claim whose instance runs for so long without a Node."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    world.clock.instant += timedelta(minutes=minutes)
    return world


async def look(world: World, ec2: Any, node_input: NodeInput = ALONE) -> RegisterResult:
    explain = Consoles(cast("Any", ec2)).explain
    return await register(world.kube, world.recorder, node_input, world.clock, explain=explain)


def says(world: World) -> str:
    return next(
        str(condition["message"])
        for condition in world.claim["status"]["conditions"]
        if condition["type"] == "Registered"
    )


async def test_lif03_a_claim_without_a_node_says_after_three_minutes_what_the_console_says() -> None:
    world = late()
    answer = await look(world, Console('kubelet[1]: "Unable to register node" err="Unauthorized"'))
    assert world.status_of("Registered") == ("Unknown", "NodeNotJoined")
    assert says(world).startswith(
        "no Node has joined for i-1 within 3 minutes of its launch at 2026-03-01 12:00:00 UTC: its console output says "
        "that the API server does not accept the node's role: give the role an access entry of type EC2_LINUX"
    )
    assert 'err="Unauthorized"' in says(world)
    assert (answer.node_name, answer.message) == ("", says(world))
    assert answer.message.endswith(answer.console)
    assert world.recorder.events == [("NodeClaim", REF.name, "NodeNotJoined", says(world))]


async def test_ec2_is_not_asked_before_the_node_is_late() -> None:
    world, ec2 = late(2.9), Console("Unauthorized")
    answer = await look(world, ec2)
    assert (answer.reason, answer.console, ec2.requests) == ("NodeNotFound", "", 0)
    assert world.recorder.events == []


async def test_a_second_pass_that_finds_nothing_new_writes_nothing() -> None:
    world = late()
    await look(world, Console("Unauthorized"))
    writes = len(world.kube.calls)
    world.clock.instant += timedelta(minutes=3)
    await look(world, Console("Unauthorized"))
    assert len(world.kube.calls) == writes


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            EC2Error("UnauthorizedOperation", "GetConsoleOutput: no", operation="GetConsoleOutput"),
            "its console output cannot be read: AWS refused ec2:GetConsoleOutput (UnauthorizedOperation): allow "
            "ec2:GetConsoleOutput in the IAM policy of Tenon's role",
        ),
        (ThrottledError("RequestLimitExceeded", "GetConsoleOutput: slow"), "its console output cannot be read: "),
        (EC2Error("ConnectionError", "GetConsoleOutput: away", retryable=True), "its console output cannot be read: "),
    ],
)
async def test_a_console_that_cannot_be_read_hurts_nothing(error: Exception, text: str) -> None:
    """A policy of an earlier version lacks the right. The claim is reported all the same."""
    world = late()
    answer = await look(world, Console(error))
    assert answer.console.startswith(text)
    assert world.status_of("Registered") == ("Unknown", "NodeNotJoined")


async def test_an_ec2_that_does_not_answer_does_not_hold_the_check_up() -> None:
    answers, world = threading.Event(), late()

    class Silent(Console):
        def console_output(self, instance_id: str) -> str:
            answers.wait(30)
            return ""

    explain = Consoles(cast("Any", Silent()), within=0.01).explain
    answer = await register(world.kube, world.recorder, ALONE, world.clock, explain=explain)
    answers.set()
    assert answer.console == "its console output was not read in time"


async def test_a_node_that_joins_while_its_console_is_read_is_registered() -> None:
    world = late()

    class Joins(Console):
        def console_output(self, instance_id: str) -> str:
            world.kube.add(NODES, node(UNREGISTERED))
            return "Unauthorized"

    assert (await look(world, Joins())).node_name == "node-1"
    assert world.status_of("Registered")[0] == "True"
    assert world.recorder.events == []


async def test_a_node_that_has_joined_needs_no_console() -> None:
    world, ec2 = joined(UNREGISTERED), Console()
    world.clock.instant += timedelta(minutes=10)
    assert (await look(world, ec2, WANTED)).node_name == "node-1"
    assert ec2.requests == 0
