"""The life cycle of instances: pending, running, shutting-down, terminated, and deleted after a while.

The mock makes an instance run immediately and keeps it forever. This module manages the states instead. Time comes from
a clock that tests may replace, and states change only when `InstanceBook.advance` is called.
"""

from __future__ import annotations

import heapq
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2.consistency import Delays
from sandbox.ec2.market import Market, Pool

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}

OPEN: Mapping[str, Any] = {"CapacityReservationPreference": "open"}
"""EC2's own default: an instance may run in any open reservation that matches."""
RECLAIMED = ("Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination")


@dataclass
class Timing:
    """Seconds that each state lasts. ``purge`` is how long a terminated instance can still be described."""

    pending: float = 1.0
    shutting_down: float = 2.0
    purge: float = 600.0


@dataclass
class Machine:
    """One instance: the mock's record of it, and the data that the mock lacks."""

    sequence: int
    instance: Any
    pool: Pool
    reservation_id: str
    fleet_id: str = ""
    spot_request_id: str = ""
    running_since: float | None = None
    """When it became running, in seconds on the book's clock."""
    joins: bool = True
    """Whether it ever becomes a node."""
    reason: tuple[str, str] | None = None
    """Code and message of why it stopped or terminated, if its owner did not request that."""
    shown: bool = True
    """Whether DescribeInstances shows it."""
    tags_shown: bool = True
    console: list[str] = field(default_factory=list)
    """What its first boot wrote to the console."""
    booted: bool = False
    """Whether its boot has written to the console what an operator wants it to."""
    impaired: dict[str, float] = field(default_factory=dict)
    """Since when its status checks fail, ``system`` or ``instance``, in seconds on the book's clock."""
    events: list[tuple[str, str]] = field(default_factory=list)
    """Its scheduled events: code and description."""
    capacity_reservation_id: str = ""
    reservation_specification: Mapping[str, Any] = field(default_factory=lambda: OPEN)
    """What the launch asked for, which DescribeInstances shows even if the instance is in no reservation."""
    tenancy: str = "default"
    placement_group_id: str = ""
    placement_group_name: str = ""
    partition: int = 0
    lifecycle: str = ""
    """InstanceLifecycle of an instance that is neither spot nor on-demand."""
    boots: int = 0
    """How often it has rebooted, with the reboot that goes on."""
    rebooting_since: float | None = None
    """Since when it reboots; None if it does not."""
    released: bool = False
    """Whether it is stopped, so that its market has its capacity back."""
    started_again: bool = False
    """Whether its present boot followed a stop, so that its disk has all that a first boot fetches."""
    silent: bool = False
    """Whether its kubelet reports nothing, although it runs. A reboot ends that."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """The parts of its description that never change, computed once."""

    @property
    def id(self) -> str:
        return str(self.instance.id)

    @property
    def boot_id(self) -> str:
        """The ID of its present boot, as its kernel makes it."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}/{self.boots}"))

    @property
    def state(self) -> str:
        return str(self.instance._state.name)

    def enter(self, state: str) -> None:
        """Change the state, name and code, that EC2 reports."""
        self.instance._state.name, self.instance._state.code = state, CODES[state]


class InstanceBook:
    """Every instance of the sandbox, in launch order."""

    def __init__(self, market: Market, timing: Timing | None = None, clock: Callable[[], float] = time.time) -> None:
        self.market = market
        self.timing = timing or Timing()
        self.clock = clock
        self.lock = RLock()
        self._machines: dict[str, Machine] = {}
        self._due: list[tuple[float, int, str, str]] = []
        self._sequence = 0
        self.on_state: Callable[[str, str], None] = lambda _id, _state: None
        """Called with an instance's ID and its state whenever the state changes."""
        self.on_billing: Callable[[Machine, str, float], None] = lambda _machine, _state, _moment: None
        """Called with an instance, its new state and the time of the change on the book's clock."""
        self.abandoned: set[str] = set()
        """Instances whose Node is not deleted. It stays behind like the Node of a lost machine."""

    def add(
        self,
        instance: Any,
        pool: Pool,
        reservation_id: str,
        fleet_id: str = "",
        spot_request_id: str = "",
        age: float = 0.0,
        delays: Delays | None = None,
    ) -> Machine:
        """Add a new instance, which is pending from now on, or since ``age`` seconds ago. It, or its tags, may be
        shown later.
        """
        with self.lock:
            self._sequence += 1
            machine = Machine(self._sequence, instance, pool, reservation_id, fleet_id, spot_request_id)
            self._enter(machine, "pending")
            self._machines[machine.id] = machine
            self._later(self.timing.pending - age, machine, "running")
            if delays is not None:
                shown, tags_shown = delays.of_instance(machine.sequence)
                machine.shown, machine.tags_shown = not shown, not tags_shown
                self._later(shown, machine, "shown")
                self._later(tags_shown, machine, "tags shown")
            return machine

    def get(self, instance_id: str) -> Machine | None:
        """The instance with this ID. None if it does not exist, or no longer exists."""
        return self._machines.get(instance_id)

    def all(self) -> list[Machine]:
        """All instances, oldest first."""
        return list(self._machines.values())

    def shown(self, instance_ids: Iterable[str] = ()) -> list[Machine]:
        """The instances that can be described: those with these IDs, in the order requested, or all, oldest first.

        Raises:
            EC2ClientError: InvalidInstanceID.NotFound, naming every ID that cannot.
        """
        expectation = list(instance_ids)
        visible = {name: machine for name, machine in list(self._machines.items()) if machine.shown}
        return self._found(expectation, visible) if expectation else list(visible.values())

    def find(self, instance_ids: Iterable[str]) -> list[Machine]:
        """The instances with these IDs, in the order requested.

        Raises:
            EC2ClientError: InvalidInstanceID.NotFound, naming every ID that is unknown.
        """
        return self._found(list(instance_ids), self._machines)

    def _found(self, names: list[str], machines: Mapping[str, Machine]) -> list[Machine]:
        unknown = [instance_id for instance_id in names if instance_id not in machines]
        if unknown:
            ids, verb = ("IDs", "do") if len(unknown) > 1 else ("ID", "does")
            quoted = ", ".join(unknown)
            raise EC2ClientError("InvalidInstanceID.NotFound", f"The instance {ids} '{quoted}' {verb} not exist")
        return [machines[instance_id] for instance_id in names]

    def terminate(self, instance_ids: list[str]) -> list[tuple[Machine, str]]:
        """Start the termination of instances. Returns each with its previous state. Repeated calls change nothing."""
        with self.lock:
            machines = self.find(instance_ids)
            result = [(machine, machine.state) for machine in machines]
            for machine in machines:
                if machine.state not in ("shutting-down", "terminated"):
                    self._enter(machine, "shutting-down")
                    self._later(self.timing.shutting_down, machine, "terminated")
            return result

    def reboot(self, instance_ids: list[str]) -> None:
        """Reboot running instances. Their state stays running.

        Raises:
            EC2ClientError: an instance is unknown or does not run. None of them reboots then.
        """
        with self.lock:
            machines = self.find(instance_ids)
            for machine in machines:
                if machine.state != "running":
                    raise _wrong_state(machine, "rebooted")
            for machine in machines:
                machine.boots += 1
                machine.silent = False
                machine.rebooting_since = self.clock()
                machine.console.append("The machine reboots.")

    def stop_own(self, instance_ids: list[str]) -> list[tuple[Machine, str]]:
        """Stop running instances, as their owner asks. Returns each with its previous state. Repeated calls change
        nothing.

        Raises:
            EC2ClientError: an instance is unknown, is a spot instance, or cannot stop now. None of them stops then.
        """
        with self.lock:
            machines = self.find(instance_ids)
            for machine in machines:
                if machine.pool[2] == "spot":
                    text = f"The Spot Instance '{machine.id}' of a one-time request cannot be stopped."
                    raise EC2ClientError("UnsupportedOperation", text)
                if machine.state not in ("running", "stopping", "stopped"):
                    raise _wrong_state(machine, "stopped")
            result = [(machine, machine.state) for machine in machines]
            for machine in machines:
                if machine.state == "running":
                    machine.rebooting_since = None
                    self._enter(machine, "stopping")
                    self._later(self.timing.shutting_down, machine, "stopped")
            return result

    def start(self, instance_ids: list[str]) -> list[tuple[Machine, str]]:
        """Start stopped instances. Returns each with its previous state. Repeated calls change nothing.

        Raises:
            EC2ClientError: an instance is unknown or cannot start now, or its market has no capacity. Then none starts.
        """
        with self.lock:
            machines = self.find(instance_ids)
            for machine in machines:
                if machine.state not in ("stopped", "pending", "running"):
                    raise _wrong_state(machine, "started")
            stopped = [machine for machine in machines if machine.state == "stopped"]
            placed_machines: list[Machine] = []
            for machine in stopped:
                if not self.market.take(machine.pool, 1):
                    for other in placed_machines:
                        self.market.give_back(other.pool)
                    kind, zone, _ = machine.pool
                    text = f"We currently do not have sufficient {kind} capacity in the Availability Zone ({zone})."
                    raise EC2ClientError("InsufficientInstanceCapacity", text)
                placed_machines.append(machine)
            result = [(machine, machine.state) for machine in machines]
            for machine in stopped:
                machine.boots += 1
                machine.silent = machine.released = False
                machine.started_again = True
                machine.reason = None
                self.abandoned.discard(machine.id)
                machine.console.append("The machine starts again.")
                self._enter(machine, "pending")
                self._later(self.timing.pending, machine, "running")
            return result

    def lose(self, instance_id: str, code: str, message: str) -> None:
        """Terminate an instance as another user would. Its Node, if it has joined, stays behind.

        Raises:
            ValueError: the instance does not exist or has ended.
        """
        with self.lock:
            self._abandon(instance_id, code, message)
            self.terminate([instance_id])

    def stop(self, instance_id: str, code: str, message: str) -> None:
        """Stop a running instance as another user would.

        Raises:
            ValueError: the instance does not exist or has ended.
        """
        with self.lock:
            machine = self._abandon(instance_id, code, message)
            self._enter(machine, "stopping")
            self._later(self.timing.shutting_down, machine, "stopped")

    def interrupt(self, instance_id: str, notice_seconds: float) -> Machine:
        """Take a spot instance back after ``notice_seconds``, unless it has ended by then.

        Raises:
            ValueError: the instance does not exist, has ended, or is not a spot instance.
        """
        with self.lock:
            machine = self.living(instance_id)
            if machine.pool[2] != "spot":
                raise ValueError(f"{instance_id} is not a spot instance")
            self._later(notice_seconds, machine, "reclaimed")
            return machine

    def living(self, instance_id: str) -> Machine:
        """The instance of this ID.

        Raises:
            ValueError: it does not exist or has ended.
        """
        machine = self._machines.get(instance_id)
        if machine is None or machine.state in ("shutting-down", "terminated"):
            subject = "has no instance" if machine is None else "has ended the instance"
            raise ValueError(f"EC2 {subject} {instance_id}")
        return machine

    def _enter(self, machine: Machine, state: str, moment: float | None = None) -> None:
        """Change the state. ``moment``: when it changed, if that is earlier than now."""
        machine.enter(state)
        self.on_state(machine.id, state)
        self.on_billing(machine, state, self.clock() if moment is None else moment)

    def _abandon(self, instance_id: str, code: str, message: str) -> Machine:
        machine = self.living(instance_id)
        machine.reason = (code, message)
        self.abandoned.add(instance_id)
        return machine

    def vanish(self, instance_id: str) -> None:
        """Make EC2 forget an instance immediately.

        Raises:
            ValueError: the instance does not exist.
        """
        with self.lock:
            machine = self._machines.get(instance_id)
            if machine is None:
                raise ValueError(f"EC2 has no instance {instance_id}")
            self.abandoned.add(instance_id)
            self.on_billing(machine, "terminated", self.clock())
            if machine.state != "terminated":
                self._free(machine)
            self._purge(machine)

    def advance(self) -> None:
        """Apply every state change that is due by now."""
        if not self._due or self._due[0][0] > self.clock():
            return
        with self.lock:
            now = self.clock()
            while self._due and self._due[0][0] <= now:
                due, _, instance_id, state = heapq.heappop(self._due)
                machine = self._machines.get(instance_id)
                if machine is not None:
                    self._change(machine, state, due)

    def clear(self) -> None:
        """Clear everything, for a reset."""
        with self.lock:
            self._machines.clear()
            self._due.clear()
            self.abandoned.clear()

    def _later(self, seconds: float, machine: Machine, state: str) -> None:
        heapq.heappush(self._due, (self.clock() + seconds, machine.sequence, machine.id, state))

    def _change(self, machine: Machine, state: str, due: float) -> None:
        match state:
            case "running" if machine.state == "pending":
                self._enter(machine, "running", due)
                machine.running_since = due
                if machine.started_again:
                    machine.rebooting_since = due
            case "shown":
                machine.shown = True
            case "tags shown":
                machine.tags_shown = True
            case "stopped" if machine.state == "stopping":
                self._enter(machine, "stopped")
                machine.released = True
                self.market.give_back(machine.pool)
            case "reclaimed" if machine.state not in ("shutting-down", "terminated"):
                self.lose(machine.id, *RECLAIMED)
            case "terminated":
                self._free(machine)
                self._enter(machine, "terminated")
                self._later(self.timing.purge, machine, "purged")
            case "purged":
                self._purge(machine)

    def _free(self, machine: Machine) -> None:
        """Release interfaces, volumes and capacity. The mock's own termination does the first two.

        An instance that was stopped has released its capacity before.
        """
        machine.fixed.clear()
        machine.instance.terminate()
        if not machine.released:
            self.market.give_back(machine.pool)

    def _purge(self, machine: Machine) -> None:
        """Delete an instance and its tags."""
        del self._machines[machine.id]
        backend = machine.instance.ec2_backend
        for resource in (machine.id, *(nic.id for nic in machine.instance.nics.values())):
            backend.tags.pop(resource, None)
        reservation = backend.reservations.get(machine.reservation_id)
        if reservation is not None:
            reservation.instances = [instance for instance in reservation.instances if instance.id != machine.id]
            if not reservation.instances:
                del backend.reservations[machine.reservation_id]


def _wrong_state(machine: Machine, verb: str) -> EC2ClientError:
    text = f"The instance '{machine.id}' is not in a state from which it can be {verb}."
    return EC2ClientError("IncorrectInstanceState", text)
