"""Defines named faults and registers them. The options of a fault are the parameters of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from sandbox.cluster import Sandbox

Done: TypeAlias = list[dict[str, Any]]
"""What a fault did: one row for each object that it affected."""
Apply: TypeAlias = Callable[..., Done]
Heal: TypeAlias = Callable[[Sandbox], None]


@dataclass(frozen=True)
class Option:
    """One parameter of a fault."""

    name: str
    type: Any
    default: Any
    about: str


@dataclass(frozen=True)
class NamedFault:
    """A fault that can be applied and, in most cases, healed."""

    name: str
    about: str
    apply: Apply
    heal: Heal | None
    """None if the fault cannot be undone."""

    @property
    def options(self) -> list[Option]:
        """The options of the fault, in order. An option without a default is required."""
        hints = get_type_hints(self.apply, include_extras=True)
        result = []
        for parameter in list(inspect.signature(self.apply).parameters.values())[1:]:
            hint = hints[parameter.name]
            kind, about = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, "")
            result.append(Option(parameter.name, kind, parameter.default, str(about)))
        return result


FAULTS: dict[str, NamedFault] = {}
"""All faults by name, in registration order. Importing their modules, as the catalogue does, fills it."""


def fault(name: str, *, heal: Heal | None) -> Callable[[Apply], Apply]:
    """Register a function as the fault ``name``. It takes a sandbox and options, and its docstring is the
    description.
    """

    def register(apply: Apply) -> Apply:
        FAULTS[name] = NamedFault(name, " ".join((apply.__doc__ or "").split()), apply, heal)
        return apply

    return register
