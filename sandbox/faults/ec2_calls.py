"""Faults of EC2's API: throttling, errors, an outage, slow calls, and calls that take effect without an answer."""

from __future__ import annotations

from typing import Annotated

from sandbox.cluster import Sandbox
from sandbox.faults.registry import Done, Heal, fault

Action = Annotated[str, "Action, such as CreateFleet; * for all."]
Chance = Annotated[float, "Share of the calls that fail, 0 to 1."]
Seed = Annotated[int, "Seed of the random choice: the same seed makes the same choice."]


def _clear(label: str) -> Heal:
    def heal(sandbox: Sandbox) -> None:
        sandbox.ec2().clear_faults(label=label)

    return heal


def _release(sandbox: Sandbox) -> None:
    sandbox.ec2().release()


def _clear_throttle(sandbox: Sandbox) -> None:
    sandbox.ec2().clear_throttle()


@fault("ec2-throttle", heal=_clear_throttle)
def throttle(
    sandbox: Sandbox,
    action: Action = "*",
    rate: Annotated[float, "Calls a second that pass."] = 1.0,
    burst: Annotated[float, "Calls that pass at once."] = 1.0,
) -> Done:
    """EC2 answers RequestLimitExceeded to calls beyond a rate."""
    sandbox.ec2().throttle(action, rate, burst)
    return []


@fault("ec2-errors", heal=_clear("ec2-errors"))
def errors(
    sandbox: Sandbox,
    action: Action = "*",
    code: Annotated[str, "Error code."] = "InternalError",
    status: Annotated[int, "HTTP status."] = 500,
    chance: Chance = 0.3,
    seed: Seed = 0,
) -> Done:
    """A share of EC2's calls fails without an effect."""
    sandbox.ec2().fault(action, code, status=status, chance=chance, seed=seed, count=None, label="ec2-errors")
    return []


@fault("ec2-down", heal=_clear("ec2-down"))
def down(sandbox: Sandbox) -> Done:
    """Every call to AWS fails; instances and their nodes live on."""
    sandbox.ec2().fault("*", "ServiceUnavailable", status=503, count=None, label="ec2-down")
    return []


@fault("ec2-lost-answer", heal=_clear("ec2-lost-answer"))
def lost_answer(
    sandbox: Sandbox,
    action: Action = "CreateFleet",
    count: Annotated[int, "How many calls."] = 1,
) -> Done:
    """EC2 acts, and answers with an internal error."""
    sandbox.ec2().fault(action, "InternalError", status=500, after_effect=True, count=count, label="ec2-lost-answer")
    return []


@fault("ec2-slow", heal=_clear("ec2-slow"))
def slow(
    sandbox: Sandbox,
    action: Action = "*",
    seconds: Annotated[float, "How long each call waits before it takes effect."] = 5.0,
    chance: Chance = 1.0,
    seed: Seed = 0,
) -> Done:
    """EC2 takes long; longer than a client waits, the call still takes effect."""
    sandbox.ec2().fault(action, latency_seconds=seconds, chance=chance, seed=seed, count=None, label="ec2-slow")
    return []


@fault("ec2-hold", heal=_release)
def hold(
    sandbox: Sandbox,
    action: Action = "CreateFleet",
    after_effect: Annotated[bool, "Withhold the answer; else the call waits before it takes effect."] = False,
    count: Annotated[int, "How many calls."] = 1,
) -> Done:
    """Calls wait until this fault is cleared, or their client is gone."""
    sandbox.ec2().hold(action, after_effect=after_effect, count=count)
    return []
