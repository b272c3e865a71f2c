"""Tells users in events and log lines what is wrong with NodePools, once for each problem."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from activities.kubernetes.event_references import reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODEPOOLS
from tenon.apis.conditions import READY, get_condition
from tenon.apis.json_object import JsonObject
from tenon.apis.nodepool import (
    CAPACITY_AVAILABLE,
    CONSOLIDATION_SLOWED,
    NODE_LAUNCH_HEALTHY,
    NODE_REGISTRATION_HEALTHY,
    OVERLAPPING,
    SCHEDULED_OFF,
    NodePool,
)
from tenon.apis.validation import parse, unknown_values
from tenon.kube.event_reasons import ConditionEvent, EventReason
from tenon.kube.records import ObjectRecord
from tenon.schedule.off_condition import OFF


class NodePoolEvents:
    """Publishes the events of NodePools."""

    def __init__(self, recorder: EventPublisher, log: logging.Logger) -> None:
        self._recorder = recorder
        self._log = log
        self._read: dict[str, tuple[str, int]] = {}
        """By NodePool: the UID and the generation whose values were last checked."""

    async def publish(self, record: ObjectRecord, pool: NodePool, status: Mapping[str, Any]) -> None:
        """Publish an event for each problem in the new ``status`` that ``record`` does not have yet."""
        before = get_condition(pool.status.conditions, READY)
        aside = (READY, CAPACITY_AVAILABLE, NODE_LAUNCH_HEALTHY, NODE_REGISTRATION_HEALTHY)
        failed = [c for c in status["conditions"] if c["status"] == "False" and c["type"] not in aside]
        was_ready = before is None or before.status == "True"
        if failed and (was_ready or record.condition("Ready").get("message") is None):
            for condition in failed:
                await self._recorder.publish(
                    _reference(record), ConditionEvent(condition["reason"]), condition["message"]
                )
            self._log.warning(
                "A NodePool is not ready",
                extra={"nodepool": record.name, "conditions": {c["type"]: c["message"] for c in failed}},
            )
        health: dict[str, Any] = next((c for c in status["conditions"] if c["type"] == NODE_LAUNCH_HEALTHY), {})
        health_before = record.condition(NODE_LAUNCH_HEALTHY)
        if health.get("status") == "False" and health["message"] != health_before.get("message"):
            await self._recorder.publish(_reference(record), EventReason.LAUNCHES_HELD_BACK, health["message"])
        capacity: dict[str, Any] = next((c for c in status["conditions"] if c["type"] == CAPACITY_AVAILABLE), {})
        message_before = record.condition(CAPACITY_AVAILABLE).get("message")
        if capacity.get("status") == "False" and capacity["message"] != message_before:
            await self._recorder.publish(_reference(record), ConditionEvent(capacity["reason"]), capacity["message"])
        slowed = next((c["message"] for c in status["conditions"] if c["type"] == CONSOLIDATION_SLOWED), "")
        if slowed and slowed != record.condition(CONSOLIDATION_SLOWED).get("message"):
            await self._recorder.publish(_reference(record), EventReason.CONSOLIDATION_SLOWED, slowed)
        overlap = next((c["message"] for c in status["conditions"] if c["type"] == OVERLAPPING), "")
        if overlap and overlap != record.condition(OVERLAPPING).get("message"):
            await self._recorder.publish(_reference(record), EventReason.SAME_PODS_SAME_WEIGHT, overlap)
        off: dict[str, Any] = next((c for c in status["conditions"] if c["type"] == SCHEDULED_OFF), {})
        if off.get("reason") == OFF and record.condition(SCHEDULED_OFF).get("reason") != OFF:
            text = f"{off['message']}; its nodes leave"
            await self._recorder.publish(_reference(record), EventReason.SCHEDULED_OFF, text)

    def log_unknown_values(self, pool: NodePool) -> None:
        """Log requirement values that no node can have, once for each generation of the pool."""
        name, version = pool.metadata.name, (pool.metadata.uid, pool.metadata.generation)
        if self._read.get(name) == version:
            return
        self._read[name] = version
        for fault in unknown_values(pool.spec.template.spec.requirements):
            self._log.warning(
                "A NodePool names unknown values", extra={"nodepool": name, "error": f"spec.template.spec.{fault}"}
            )

    async def report_unreadable(self, record: ObjectRecord) -> None:
        """Report a NodePool that cannot be parsed, in an event and in the log. The other pools are not affected."""
        _, faults = parse(NodePool, record.body)
        why = "; ".join(str(fault) for fault in faults)
        self._log.error("A NodePool cannot be read and is left out", extra={"nodepool": record.name, "error": why})
        await self._recorder.publish(_reference(record), EventReason.NODE_POOL_VALIDATION_FAILED, why)


def _reference(record: ObjectRecord) -> JsonObject:
    return reference(NODEPOOLS, record.name, record.uid)
