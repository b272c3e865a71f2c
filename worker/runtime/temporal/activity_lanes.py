"""Sorts activities by the lane of their row in `OPTIONS`, so that a worker serves what workflows send to its queue.

Temporal does not say that no worker has an activity: the call waits for one, and with it the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from workflows.options import OPTIONS

Activity = Callable[..., Any]


def by_lane(activities: Iterable[Activity], lanes: Collection[str]) -> dict[str, list[Activity]]:
    """Return the activities of each of these lanes.

    Raises:
        TypeError: an activity of these lanes is missing, or one is there twice or belongs to no row of them.
    """
    missing: dict[str, str] = {name: options.lane for name, options in OPTIONS.items() if options.lane in lanes}
    served: dict[str, list[Activity]] = {lane: [] for lane in lanes}
    for activity in activities:
        name = _name(activity)
        if name not in missing:
            raise TypeError(f"the activity {name} is registered twice, or has no row of its lane in OPTIONS")
        served[missing.pop(name)].append(activity)
    if missing:
        raise TypeError(f"no worker runs the activity {min(missing)}: register it in worker/runtime")
    return served


def _name(activity: Activity) -> str:
    """The activity type that ``activity.defn`` gave the function."""
    return str(getattr(activity, "__temporal_activity_definition").name)
