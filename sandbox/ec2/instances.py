"""The life of instances: pending, running, shutting-down, terminated, and gone after a while.

The mock makes an instance run at once and keeps it for ever. This book owns the states instead; time comes from a
clock that tests may replace, and moves only when `InstanceBook.advance` is called.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2.market import Market, Pool

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


@dataclass
class Timing:
    """Seconds that each state lasts; ``purge`` is how long a terminated instance can still be described."""

    pending: float = 1.0
    shutting_down: float = 2.0
    purge: float = 600.0


@dataclass
class Machine:
    """One instance: the mock's record of it, and what the mock does not know."""

    sequence: int
    instance: Any
    pool: Pool
    reservation_id: str
    fleet_id: str = ""
    spot_request_id: str = ""
    running_since: float | None = None
    """When it became running, in seconds of the book's clock."""
    joins: bool = True
    """Whether it ever becomes a node."""
    reason: tuple[str, str] | None = None
    """Code and message of why it stopped or ends, when not by a call of its owner."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Members of its description that never change, kept once they were worked out."""

    @property
    def id(self) -> str:
        return str(self.instance.id)

    @property
    def state(self) -> str:
        return str(self.instance._state.name)

    def enter(self, state: str) -> None:
        """Changes the state as EC2 reports it."""
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
        self.abandoned: set[str] = set()
        """Instances whose Node nobody deletes: it stays behind as that of a machine that was lost."""

    def add(
        self,
        instance: Any,
        pool: Pool,
        reservation_id: str,
        fleet_id: str = "",
        spot_request_id: str = "",
        age: float = 0.0,
    ) -> Machine:
        """Enters a new instance, pending from now on, or from ``age`` seconds ago."""
        with self.lock:
            self._sequence += 1
            machine = Machine(self._sequence, instance, pool, reservation_id, fleet_id, spot_request_id)
            machine.enter("pending")
            self._machines[machine.id] = machine
            self._later(self.timing.pending - age, machine, "running")
            return machine

    def get(self, instance_id: str) -> Machine | None:
        """The instance of an id, None when there is (no longer) one."""
        return self._machines.get(instance_id)

    def all(self) -> list[Machine]:
        """Every instance that can be described, oldest first."""
        return list(self._machines.values())

    def find(self, instance_ids: Iterable[str]) -> list[Machine]:
        """The instances of these ids, in the order asked for.

        Raises:
            EC2ClientError: InvalidInstanceID.NotFound, naming every id that is unknown.
        """
        wanted = list(instance_ids)
        unknown = [instance_id for instance_id in wanted if instance_id not in self._machines]
        if unknown:
            ids, verb = ("IDs", "do") if len(unknown) > 1 else ("ID", "does")
            quoted = ", ".join(unknown)
            raise EC2ClientError("InvalidInstanceID.NotFound", f"The instance {ids} '{quoted}' {verb} not exist")
        return [self._machines[instance_id] for instance_id in wanted]

    def terminate(self, instance_ids: list[str]) -> list[tuple[Machine, str]]:
        """Starts the termination of instances; each comes back with its state before. Repeating it changes nothing."""
        with self.lock:
            machines = self.find(instance_ids)
            result = [(machine, machine.state) for machine in machines]
            for machine in machines:
                if machine.state not in ("shutting-down", "terminated"):
                    machine.enter("shutting-down")
                    self._later(self.timing.shutting_down, machine, "terminated")
            return result

    def lose(self, instance_id: str, code: str, message: str) -> None:
        """Ends an instance as if by another hand; its Node stays behind when it has joined.

        Raises:
            ValueError: there is no such instance, or it has ended.
        """
        with self.lock:
            machine = self._living(instance_id)
            machine.reason = (code, message)
            self.abandoned.add(instance_id)
            self.terminate([instance_id])

    def stop(self, instance_id: str, code: str, message: str) -> None:
        """Stops a running instance as if by another hand; raises ValueError as `lose`."""
        with self.lock:
            machine = self._living(instance_id)
            machine.reason = (code, message)
            self.abandoned.add(instance_id)
            machine.enter("stopping")
            self._later(self.timing.shutting_down, machine, "stopped")

    def vanish(self, instance_id: str) -> None:
        """Makes EC2 forget an instance at once; raises ValueError for an unknown one."""
        with self.lock:
            machine = self._machines.get(instance_id)
            if machine is None:
                raise ValueError(f"EC2 has no instance {instance_id}")
            self.abandoned.add(instance_id)
            if machine.state != "terminated":
                self._free(machine)
            self._purge(machine)

    def _living(self, instance_id: str) -> Machine:
        machine = self._machines.get(instance_id)
        if machine is None or machine.state in ("shutting-down", "terminated"):
            what = "has no instance" if machine is None else "has ended the instance"
            raise ValueError(f"EC2 {what} {instance_id}")
        return machine

    def advance(self) -> None:
        """Makes every change of state that is due by now."""
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
        """Forgets everything, for a reset."""
        with self.lock:
            self._machines.clear()
            self._due.clear()
            self.abandoned.clear()

    def _later(self, seconds: float, machine: Machine, state: str) -> None:
        heapq.heappush(self._due, (self.clock() + seconds, machine.sequence, machine.id, state))

    def _change(self, machine: Machine, state: str, due: float) -> None:
        match state:
            case "running" if machine.state == "pending":
                machine.enter("running")
                machine.running_since = due
            case "stopped" if machine.state == "stopping":
                machine.enter("stopped")
            case "terminated":
                self._free(machine)
                machine.enter("terminated")
                self._later(self.timing.purge, machine, "purged")
            case "purged":
                self._purge(machine)

    def _free(self, machine: Machine) -> None:
        """Gives back interfaces, volumes and capacity; the mock's own termination does the first two."""
        machine.fixed.clear()
        machine.instance.terminate()
        self.market.give_back(machine.pool)

    def _purge(self, machine: Machine) -> None:
        """Forgets an instance."""
        del self._machines[machine.id]
        backend = machine.instance.ec2_backend
        for resource in (machine.id, *(nic.id for nic in machine.instance.nics.values())):
            backend.tags.pop(resource, None)
        reservation = backend.reservations.get(machine.reservation_id)
        if reservation is not None:
            reservation.instances = [one for one in reservation.instances if one.id != machine.id]
            if not reservation.instances:
                del backend.reservations[machine.reservation_id]
