"""Keeps a Temporal Schedule for each NodeSchedule: it fires when the NodeSchedule changes what holds.

It also fires when the NodeSchedule itself is new or changes, because the newest run says what holds. A NodePool that is
always off has no time at which that changes.

So people see in Temporal what comes next and what came, and may pause it there: a NodeSchedule asks for nothing while
its Temporal Schedule is paused. The status of the NodeSchedule remembers the pause, so it holds without Temporal too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODESCHEDULES
from tenon.kube.records import ObjectRecord
from tenon.kube.timestamps import spoken
from tenon.messages.node_schedule import NodeScheduleResult, ScheduledPool
from tenon.schedule import page
from tenon.schedule.change_times import change_times
from tenon.schedule.desired import NOTHING
from tenon.schedule.node_pools import in_words
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller
from worker.controllers.ensured_schedule import EnsureSchedule
from workflows import names
from workflows.node_schedule import NodeScheduleWorkflow

LOOK_AGAIN = 60.0
"""Seconds until a pause or a deletion of a Temporal Schedule is noticed."""
CATCH_UP = timedelta(minutes=1)
"""A change that was missed is not caught up on: what holds depends on the clock alone."""


class ScheduleApplier:
    """Carries out a NodeSchedule whose Temporal Schedule has fired."""

    def __init__(self, cache: ClusterCache, view: PlanningView) -> None:
        self._cache = cache
        self._view = view

    def apply(self, name: str) -> NodeScheduleResult:
        """Wake those who carry it out, and return what holds now."""
        self._cache.changes.publish(Topic.SCHEDULE, name)
        schedule = next((item for item in self._view.schedules.models() if item.metadata.name == name), None)
        if schedule is None or not schedule.in_force:
            return NodeScheduleResult(exists=False)
        schedules_ask = self._view.schedules.now()
        pools = []
        for pool in schedule.spec.node_pools:
            until = schedules_ask.until.get(pool)
            holds = in_words(schedules_ask.pools.get(pool, NOTHING))
            nodes = sum(claim.pool == pool for claim in self._cache.claims)
            pools.append(ScheduledPool(name=pool, holds=holds, until=spoken(until) if until else "", nodes=nodes))
        headroom = {(item.namespace, item.name) for entry in schedule.spec.entries for item in entry.headroom}
        buffers = {"/".join(key): replicas for key, replicas in schedules_ask.buffers.items() if key in headroom}
        return NodeScheduleResult(pools=pools, buffers=buffers)


class TemporalScheduleController(Controller):
    """Creates, updates and deletes the Temporal Schedules of NodeSchedules, and takes over their pauses."""

    name = "nodeschedule.temporal"
    object_field = "nodeschedule"
    topics = (Topic.SCHEDULE,)
    interval = 5.0

    def __init__(
        self,
        client: Client,
        kube: Kube,
        cache: ClusterCache,
        view: PlanningView,
        cluster: str,
        ensure: EnsureSchedule,
    ) -> None:
        super().__init__(cache)
        self._ensure = ensure
        self._client = client
        self._kube = kube
        self._view = view
        self._cluster = cluster
        self._knows_all = False
        """Whether the Temporal Schedules of NodeSchedules that went away before this leader began are gone."""
        self._present: set[str] = set()
        """The NodeSchedules that have a Temporal Schedule, as far as this leader knows."""
        self._shown: dict[str, tuple[object, ...]] = {}
        """By NodeSchedule, for which version of it this leader has started a run that says what holds."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - time changes any of them
        """Look at all NodeSchedules."""
        records = {record.name: record for record in self._cache.schedules if not record.deleting}
        if not self._knows_all:
            self._knows_all = await self.isolate("", self._list())
        for name in sorted(self._present - set(records)):
            if await self.isolate(name, self._delete(name)):
                self._present.discard(name)
                self._shown.pop(name, None)
        for name, record in sorted(records.items()):
            if await self.isolate(name, self._keep(record)):
                self._present.add(name)
        return LOOK_AGAIN if records or self._present or not self._knows_all else None

    async def _list(self) -> None:
        prefix = names.node_schedules_prefix(self._cluster)
        listing = await self._client.list_schedules()
        self._present |= {item.id.removeprefix(prefix) async for item in listing if item.id.startswith(prefix)}

    async def _delete(self, name: str) -> None:
        handle = self._client.get_schedule_handle(names.node_schedule_id(self._cluster, name))
        try:
            await handle.delete()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def _keep(self, record: ObjectRecord) -> None:
        """Create or correct one Temporal Schedule, and take over its pause."""
        name = record.name
        times = change_times(self._view.schedules.models(), name, utc_now())
        ensured = await self._ensure(
            self._client, names.node_schedule_id(self._cluster, name), self._schedule(name, times)
        )
        if ensured.paused != bool(record.status.get("paused")):
            await self._kube.patch(NODESCHEDULES, name, {"status": {"paused": ensured.paused}}, subresource="status")
            self._log.info(
                "The Temporal Schedule of a NodeSchedule was paused or resumed",
                extra={"nodeschedule": name, "paused": ensured.paused},
            )
        await self._show(record)

    async def _show(self, record: ObjectRecord) -> None:
        """Start a run that says what holds, unless the newest run of this leader says so. Again after a pause."""
        version = (*record.version_of_spec, bool(record.status.get("paused")))
        if self._shown.get(record.name) != version:
            handle = self._client.get_schedule_handle(names.node_schedule_id(self._cluster, record.name))
            await handle.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)
            self._shown[record.name] = version

    def _schedule(self, name: str, times: Iterable[datetime]) -> Schedule:
        return Schedule(
            action=ScheduleActionStartWorkflow(
                NodeScheduleWorkflow.run,
                page.first_input(self._cluster, name),
                id=names.node_schedule_id(self._cluster, name),
                task_queue=names.task_queue(self._cluster),
                typed_search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, self._cluster)]),
                static_summary=f"NodeSchedule {name}",
                static_details=page.ABOUT,
            ),
            spec=ScheduleSpec(calendars=[_calendar(at) for at in times]),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
        )


def _calendar(at: datetime) -> ScheduleCalendarSpec:
    def only(value: int) -> list[ScheduleRange]:
        return [ScheduleRange(value)]

    return ScheduleCalendarSpec(
        second=only(at.second),
        minute=only(at.minute),
        hour=only(at.hour),
        day_of_month=only(at.day),
        month=only(at.month),
        year=only(at.year),
    )
