"""Says what EC2's StateReason is about if an instance ends before its Node joins, and so which launches slow down."""

from __future__ import annotations

from enum import StrEnum


class BootFault(StrEnum):
    """What the next instance must not have in common with one that ended."""

    NOTHING = "nothing"
    """A call ended it, or EC2 took spot capacity back."""
    OFFERING = "offering"
    """EC2 has no capacity for the type in the zone after all."""
    INTERNAL = "internal"
    """EC2 failed: perhaps the host of the offering, or what its class boots from in the zone, such as EBS."""
    NODE_CLASS = "node class"
    """The instance could not use a volume, a snapshot or a key of its EC2NodeClass, or shut itself down at its boot."""
    ACCOUNT = "account"
    """The account has no more volumes."""


_FAULTS = {
    "": BootFault.NOTHING,
    "Client.UserInitiatedShutdown": BootFault.NOTHING,
    "Client.UserInitiatedHibernate": BootFault.NOTHING,
    "Server.SpotInstanceShutdown": BootFault.NOTHING,
    "Server.SpotInstanceTermination": BootFault.NOTHING,
    "Server.ScheduledStop": BootFault.NOTHING,
    "Server.InsufficientInstanceCapacity": BootFault.OFFERING,
    "Server.InternalError": BootFault.INTERNAL,
    "Client.VolumeLimitExceeded": BootFault.ACCOUNT,
}


def boot_fault(code: str) -> BootFault:
    """Return what a code of StateReason is about. All that an instance boots from comes from its EC2NodeClass."""
    return _FAULTS.get(code, BootFault.NODE_CLASS)
