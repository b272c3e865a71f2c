"""Every moment of a test as the API server saw it, so that nothing happens between two looks.

Watches record all changes. etcd numbers the changes of all resources in one sequence, so that their order is known
although each resource has a watch of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import Resource
from tests.e2e.pools import Object
from tests.workflows.waiting import until

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Change:
    """One object after a change; None if it is gone."""

    number: int
    kind: str
    uid: str
    after: Object | None


@dataclass
class Moments:
    """What watches told so far."""

    changes: list[Change] = field(default_factory=list)

    def note(self, resource: Resource, event: Object) -> None:
        """Record one watch event."""
        result, kind = event["object"], event["type"]
        assert kind in ("ADDED", "MODIFIED", "DELETED"), f"the watch of {resource.plural} broke: {result}"
        metadata = result["metadata"]
        after = None if kind == "DELETED" else result
        self.changes.append(Change(int(metadata["resourceVersion"]), resource.kind, metadata["uid"], after))

    def replay(self) -> Iterator[dict[str, dict[str, Object]]]:
        """After each change, all objects by kind and uid. The dictionaries are the same each time."""
        objects: dict[str, dict[str, Object]] = {}
        for change in sorted(self.changes, key=lambda change: change.number):
            of_kind = objects.setdefault(change.kind, {})
            if change.after is None:
                of_kind.pop(change.uid, None)
            else:
                of_kind[change.uid] = change.after
            yield objects

    def states(self, uid: str) -> list[Object]:
        """An object after each of its changes, oldest first."""
        return [change.after for change in self.changes if change.uid == uid and change.after is not None]

    def latest(self, kind: str) -> dict[str, int]:
        """The number of the last change of each object of a kind that is there, by uid."""
        result: dict[str, int] = {}
        for change in self.changes:
            if change.kind == kind and change.after is None:
                result.pop(change.uid, None)
            elif change.kind == kind:
                result[change.uid] = change.number
        return result


@asynccontextmanager
async def recorded(kube: Kube, selector: str, resources: Sequence[Resource]) -> AsyncIterator[Moments]:
    """Record all changes of the objects with these labels.

    What was there at the beginning is recorded before this yields, and what was there at the end before this ends.
    """
    moments = Moments()

    async def watch(resource: Resource) -> None:
        while True:  # the server ends a watch that is read too slowly, and a new one continues where it ended
            query = {"watch": "true", "labelSelector": selector}
            numbers = [change.number for change in moments.changes if change.kind == resource.kind]
            if numbers:
                query["resourceVersion"] = str(max(numbers))
            async for line in kube.stream(resource.path(), query, idle_seconds=HOUR):
                moments.note(resource, json.loads(line))

    async def complete() -> bool:
        for task in tasks:
            assert not task.done(), f"a watch failed: {task}"
        for resource in resources:
            present_items = {
                item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"])
                for item in await kube.list(resource, label_selector=selector)
            }
            latest = moments.latest(resource.kind)
            if latest.keys() != present_items.keys() or any(
                latest[uid] < number for uid, number in present_items.items()
            ):
                return False
        return True

    tasks = [asyncio.create_task(watch(resource), name=f"watch {resource.plural}") for resource in resources]
    try:
        await until(complete)
        yield moments
        await until(complete)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
