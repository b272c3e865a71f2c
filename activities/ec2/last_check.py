"""Asks a caller a last time, immediately before CreateFleet is sent, whether it still wants what it asks for.

A launch may wait long for its turn: for a thread, and in EC2's rate limiter, which waits inside the AWS client. What it
would buy may not be wanted any more when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenon.ec2.refusals import errors as codes
from tenon.errors import TenonError

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

ACTION = "CreateFleet"


class NotWantedError(TenonError):
    """The launch is not wanted any more, and was not sent. The message says why."""


@dataclass
class _Launch:
    check: Callable[[], None]
    due: bool = True


_LAUNCH: ContextVar[_Launch | None] = ContextVar("launch", default=None)


@contextmanager
def checking(check: Callable[[], None]) -> Iterator[None]:
    """Call ``check`` in this thread before a CreateFleet of the block is sent. What it raises stops the call.

    It is called again after EC2 throttled the call, which bought nothing, but not before other retries of the AWS
    client, because the first try may have bought something.
    """
    token = _LAUNCH.set(_Launch(check))
    try:
        yield
    finally:
        _LAUNCH.reset(token)


def attach(client: EC2Client) -> None:
    """Ask before the client sends a launch. All its waits are over by then."""
    client.meta.events.register(f"before-send.ec2.{ACTION}", _check)
    client.meta.events.register(f"response-received.ec2.{ACTION}", _answered)


def _check(**_: Any) -> None:
    launch = _LAUNCH.get()
    if launch is not None and launch.due:
        launch.check()
        launch.due = False


def _answered(parsed_response: Any, **_: Any) -> None:
    launch = _LAUNCH.get()
    code = ((parsed_response or {}).get("Error") or {}).get("Code", "")
    if launch is not None and code in codes.THROTTLED:
        launch.due = True
