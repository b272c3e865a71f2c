"""Finds the capacity reservations of node classes, and counts their free places."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from activities import loggers
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from activities.ec2.network import tag_filters
from tenon.apis.ec2nodeclass import CapacityReservation, EC2NodeClass
from tenon.apis.ec2terms import CapacityReservationSelectorTerm
from tenon.ec2.types.capacity_reservations import Places, reservation_of
from tenon.kube.timestamps import clock_instant

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import CapacityReservationTypeDef, FilterTypeDef

log = loggers.INSTANCE_TYPES

COUNT_SECONDS = 60.0
"""How old a count of free places may be (ACT-01). NodeClaims that EC2 has not counted are subtracted from it."""
RETRY_SECONDS = 10.0
"""How soon to count again after EC2 refused or did not answer."""
FORGET_SECONDS = 600.0
"""How long after it was last needed a reservation is still counted. Classes take turns to ask for theirs."""
MOST_IDS = 200
"""The maximum number of values in one EC2 filter."""


class CapacityReservations:
    """Reads the capacity reservations of the account, and those that others share with it. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        clock: Callable[[], float] = time.time,
        *,
        seconds: float = COUNT_SECONDS,
    ) -> None:
        """``clock`` returns seconds since 1970."""
        self._clients = clients
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        """Held by the thread that counts. Every launch and every plan of a class with reservations needs the places, so
        none waits for another's count if an earlier one is known."""
        self._places: dict[str, Places] = {}
        self._asked_at: dict[str, float] = {}
        """When each reservation was last asked for."""
        self._counted: frozenset[str] = frozenset()
        self._read_again_at = self._failed_until = 0.0
        self._times_forgotten = 0

    def find(self, node_class: EC2NodeClass) -> list[CapacityReservation]:
        """The reservations that the class selects and that can be used, sorted by id.

        Raises:
            EC2Error: EC2 refused the call or did not answer.
        """
        now = clock_instant(self._clock())
        reservations_by_id: dict[str, CapacityReservation] = {}
        for term in node_class.spec.capacity_reservation_selector_terms:
            for raw in self._described([*_filters(term), {"Name": "state", "Values": ["active"]}]):
                reservation = reservation_of(raw, now)
                if reservation is not None:
                    reservations_by_id[reservation.id] = reservation
        return [reservations_by_id[reservation_id] for reservation_id in sorted(reservations_by_id)]

    def places(self, ids: Collection[str]) -> dict[str, Places]:
        """The free places of these reservations. Those that EC2 does not show are left out.

        If EC2 refuses or does not answer, the last known counts stay.
        """
        if not ids:
            return {}
        with self._lock:
            now = self._clock()
            self._asked_at |= dict.fromkeys(ids, now)
            self._asked_at = {
                reservation_id: at for reservation_id, at in self._asked_at.items() if now - at < FORGET_SECONDS
            }
            is_counted = self._counted.issuperset(ids)
        if self._is_due(ids) and self._counting.acquire(blocking=not is_counted):
            try:
                if self._is_due(ids):  # otherwise another thread has counted meanwhile
                    self._read()
            finally:
                self._counting.release()
        with self._lock:
            return {
                reservation_id: self._places[reservation_id] for reservation_id in ids if reservation_id in self._places
            }

    def count(self, ids: Collection[str]) -> dict[str, Places]:
        """Ask EC2 for the free places of these reservations. Those that are not active are left out.

        Raises:
            EC2Error: EC2 refused the call or did not answer.
        """
        now, ordered = self._clock(), sorted(ids)
        reservations = [
            raw
            for start in range(0, len(ordered), MOST_IDS)
            for raw in self._described(
                [{"Name": "capacity-reservation-id", "Values": ordered[start : start + MOST_IDS]}]
            )
        ]
        return {
            raw["CapacityReservationId"]: Places(raw["AvailableInstanceCount"], now)
            for raw in reservations
            if raw["State"] == "active"
        }

    def forget(self) -> None:
        """Count again when the places are needed next, also if they are being counted now."""
        with self._lock:
            self._read_again_at = self._failed_until = 0.0
            self._times_forgotten += 1

    def _is_due(self, ids: Collection[str]) -> bool:
        with self._lock:
            now = self._clock()
            return now >= self._read_again_at or (now >= self._failed_until and not self._counted.issuperset(ids))

    def _read(self) -> None:
        with self._lock:
            ids, now, times_forgotten = frozenset(self._asked_at), self._clock(), self._times_forgotten
        try:
            reservations = self.count(ids)
        except EC2Error as error:
            log.warning(
                "The worker failed to count the free places of capacity reservations and keeps the last counts",
                extra={"error": str(error)},
            )
            with self._lock:
                self._read_again_at = self._failed_until = now + RETRY_SECONDS
            return
        with self._lock:
            self._counted, self._places = ids, reservations
            if self._times_forgotten == times_forgotten:
                self._read_again_at = now + self._seconds

    def _described(self, filters: list[FilterTypeDef]) -> list[CapacityReservationTypeDef]:
        with translated("DescribeCapacityReservations"):
            pages = self._clients.ec2.get_paginator("describe_capacity_reservations").paginate(Filters=filters)
            return [reservation for page in pages for reservation in page["CapacityReservations"]]


def _filters(term: CapacityReservationSelectorTerm) -> list[FilterTypeDef]:
    if term.id is not None:
        return [{"Name": "capacity-reservation-id", "Values": [term.id]}]
    filters = tag_filters(term.tags)
    if term.owner_id is not None:
        filters.append({"Name": "owner-id", "Values": [term.owner_id]})
    if term.instance_match_criteria is not None:
        filters.append({"Name": "instance-match-criteria", "Values": [term.instance_match_criteria]})
    return filters
