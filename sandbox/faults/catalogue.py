"""Lists all named faults, applies one by name, and heals one or all."""

from __future__ import annotations

from typing import Any

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults import capacity, ec2_calls, instances, orphans, outages, workflows
from sandbox.faults.registry import FAULTS, Done, Heal, NamedFault

ORDER = [module.__name__ for module in (outages, ec2_calls, capacity, instances, orphans, workflows)]
"""Faults are healed in this order, because EC2's faults can be healed only while EC2 runs."""
ALL: list[NamedFault] = sorted(FAULTS.values(), key=lambda fault: ORDER.index(fault.apply.__module__))


def named(name: str) -> NamedFault:
    """The fault of this name.

    Raises:
        SandboxError: there is none.
    """
    if name not in FAULTS:
        raise SandboxError(f"Unknown fault {name}: `tenon sandbox fault list` shows them all.")
    return FAULTS[name]


def apply(sandbox: Sandbox, name: str, **options: Any) -> Done:
    """Apply a fault. Returns what it affected.

    Raises:
        SandboxError: the fault cannot be applied.
    """
    selection = named(name)
    try:
        return selection.apply(sandbox, **options)
    except (ValueError, TypeError, OSError) as error:
        raise SandboxError(f"The fault {name} could not be made: {error}.") from error


def clear(sandbox: Sandbox, name: str = "") -> list[str]:
    """Heal the fault of this name, or all that can be healed. Healing a fault that is not active does nothing.

    Returns:
        The names of the healed faults.
    """
    selection = [named(name)] if name else ALL
    healed: dict[Heal, None] = {}  # several faults may share one heal function
    for item in selection:
        if item.heal is not None:
            healed[item.heal] = None
        elif name:
            raise SandboxError(f"The fault {name} cannot be undone.")
    try:
        for heal in healed:
            heal(sandbox)
    except (ValueError, OSError) as error:
        raise SandboxError(f"Not all could be healed: {error}.") from error
    return [first.name for first in selection if first.heal is not None]
