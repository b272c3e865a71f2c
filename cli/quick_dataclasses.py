"""Compiles the methods of dataclasses when they are first called, because a short command calls few of them.

Python 3.11 and 3.12 compile each method of each dataclass on its own, six of a frozen one: a quarter of the time that
modules take to load. Later versions compile the methods of a class together, and are left alone. Until its first call,
a method has no signature for `inspect`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

ON_DEMAND = {"__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"}


def compile_on_demand() -> None:
    """Make dataclasses that are defined from now on compile these methods when they are called."""
    compile_now: Callable[..., Callable[..., Any]] | None = getattr(dataclasses, "_create_fn", None)
    if compile_now is None:
        return

    def create(name: str, arguments: Any, body: Any, **scope: Any) -> Callable[..., Any]:
        if name not in ON_DEMAND:
            return compile_now(name, arguments, body, **scope)
        return _on_demand(name, lambda: compile_now(name, arguments, body, **scope))

    setattr(dataclasses, "_create_fn", create)  # noqa: B010 - mypy knows no such function


def _on_demand(name: str, compiled: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a method that compiles itself at its first call, and gives its class the result."""

    def method(self: Any, *values: Any, **named_values: Any) -> Any:
        own = compiled()
        own.__qualname__ = method.__qualname__  # which errors about its arguments say
        for owner in type(self).__mro__:
            if owner.__dict__.get(name) is method:
                type.__setattr__(owner, name, own)
        return own(self, *values, **named_values)

    method.__name__ = name
    return method
