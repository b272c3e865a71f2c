"""NodeSchedules in the input of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tenon.apis.nodeschedule import NodeSchedule
from tenon.schedule.desired import desired
from tenon.simulation.defaults import BEGINNING
from tenon.simulation.objects import Objects

KIND = "NodeSchedule"


def scheduled_replicas(objects: Objects, instant: datetime) -> Mapping[tuple[str, str], int]:
    """Return the replicas of CapacityBuffers, by namespace and name, that schedules ask for at the simulation's time.

    Manifests of which none has been in a cluster have no time. Schedules are left out then, with a note.
    """
    if instant == BEGINNING:
        for item in objects.by_kind.pop(KIND, {}).values():
            objects.note(f"{item.subject} is left out, because the input has no time: state one with --now")
    return desired([NodeSchedule.model_validate(item.body) for item in objects.of(KIND)], instant).buffers
