"""What a named fault is, and the list of them; a fault's options are the parameters of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from sandbox.cluster import Sandbox

Done: TypeAlias = list[dict[str, Any]]
"""What a fault did: a row for each thing that it touched."""
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
    """Something that goes wrong, on purpose."""

    name: str
    about: str
    apply: Apply
    heal: Heal | None
    """None for what cannot be undone."""

    @property
    def options(self) -> list[Option]:
        """What a caller may choose, in order; an option without a default must be given."""
        hints = get_type_hints(self.apply, include_extras=True)
        found = []
        for parameter in list(inspect.signature(self.apply).parameters.values())[1:]:
            hint = hints[parameter.name]
            kind, about = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, "")
            found.append(Option(parameter.name, kind, parameter.default, str(about)))
        return found


FAULTS: dict[str, NamedFault] = {}
"""By name, in the order in which they are listed; the catalogue fills it."""


def fault(name: str, *, heal: Heal | None) -> Callable[[Apply], Apply]:
    """Registers a function of a sandbox and options as the fault ``name``; its docstring is the description."""

    def register(apply: Apply) -> Apply:
        FAULTS[name] = NamedFault(name, " ".join((apply.__doc__ or "").split()), apply, heal)
        return apply

    return register
