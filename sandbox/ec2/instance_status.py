"""DescribeInstanceStatus: the status checks and the scheduled events of running instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sandbox.ec2.instances import CODES, InstanceBook, Machine

NOTICE = timedelta(days=14)
"""How long before a scheduled event EC2 announces it."""
_READERS: Mapping[str, Callable[[Machine], Sequence[str]]] = {
    "system-status.status": lambda machine: [_check(machine, "system")],
    "instance-status.status": lambda machine: [_check(machine, "instance")],
    "event.code": lambda machine: [code for code, _ in machine.events],
    "instance-state-name": lambda machine: [machine.state],
}


def statuses(
    book: InstanceBook, instance_ids: Sequence[str], filters: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """The statuses of running instances: those with these IDs, or all, that match every filter.

    Raises:
        KeyError: a filter is not known.
    """
    readers = {_READERS[name]: set(values) for name, values in filters.items()}
    return [
        _status(machine)
        for machine in book.shown(instance_ids)
        if machine.state == "running" and all(reader.intersection(read(machine)) for read, reader in readers.items())
    ]


def _check(machine: Machine, name: str) -> str:
    return "impaired" if name in machine.impaired else "ok"


def _summary(machine: Machine, name: str) -> dict[str, Any]:
    since = machine.impaired.get(name)
    detail: dict[str, Any] = {"Name": "reachability", "Status": "passed" if since is None else "failed"}
    if since is not None:
        detail["ImpairedSince"] = datetime.fromtimestamp(since, UTC)
    return {"Status": _check(machine, name), "Details": [detail]}


def _status(machine: Machine) -> dict[str, Any]:
    return {
        "InstanceId": machine.id,
        "AvailabilityZone": machine.pool[1],
        "InstanceState": {"Name": machine.state, "Code": CODES[machine.state]},
        "InstanceStatus": _summary(machine, "instance"),
        "SystemStatus": _summary(machine, "system"),
        "Events": [
            {
                "InstanceEventId": f"instance-event-{machine.sequence:08x}{number:08x}0",
                "Code": code,
                "Description": description,
                "NotBefore": datetime.now(UTC) + NOTICE,
            }
            for number, (code, description) in enumerate(machine.events)
        ],
    }
