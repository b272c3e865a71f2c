"""The controller of DisruptionFreezes with a simulated API server."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.resources import DISRUPTIONFREEZES, Resource
from tenon.kube.decode import decode_object
from tests.tenon.apis.case import NODEPOOL
from tests.worker.cache.objects import metadata
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.disruption import disruption_freezes
from worker.controllers.disruption.disruption_freezes import LONGEST_WAIT, DisruptionFreezeController

pytestmark = pytest.mark.asyncio(loop_scope="function")

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)


class Server:
    """Merges statuses into the cache, as a watch would."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.writes: list[str] = []

    async def patch(self, resource: Resource, name: str, patch: Any, *, subresource: str = "") -> None:
        assert (resource, subresource) == (DISRUPTIONFREEZES, "status")
        self.writes.append(name)
        present = self.cache.freezes.get(name)
        assert present is not None
        body = copy.deepcopy(dict(present.body))
        put(self.cache, name, body["spec"], {**body.get("status", {}), **patch["status"]})


def put(cache: Cache, name: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> None:
    body = {
        "apiVersion": "tenon.sh/v1alpha1",
        "kind": "DisruptionFreeze",
        "metadata": metadata(name, generation=1),
        "spec": spec,
        "status": status or {},
    }
    cache.freezes.on_event(name, decode_object(json.dumps(body).encode()))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    times = [NOW]
    monkeypatch.setattr(disruption_freezes, "utc_now", lambda: times[-1])
    return times


def controller() -> tuple[Cache, Server, DisruptionFreezeController]:
    cache = Cache()
    pool = {**NODEPOOL, "metadata": metadata("web", generation=1)}
    cache.pools.on_event("web", decode_object(json.dumps(pool).encode()))
    server = Server(cache)
    return cache, server, DisruptionFreezeController(cast("Any", server), cache, PlanningView(cache))


def gauge() -> float | None:
    return REGISTRY.get_sample_value("tenon_nodepools_frozen", {"nodepool": "web", "disruptionfreeze": "release"})


async def test_the_status_follows_the_clock_and_is_written_only_when_it_changes(clock: list[datetime]) -> None:
    cache, server, under_test = controller()
    put(cache, "release", {"startTime": "2026-11-02T13:00:00Z", "endTime": "2026-11-02T15:00:00Z"})
    assert await under_test.reconcile(()) == 3600.0
    record = cache.freezes.get("release")
    assert record is not None
    assert (record.status["active"], record.status["nextChange"]) == (False, "2026-11-02T13:00:00Z")
    assert record.status["nodePools"] == 1
    clock.append(NOW + timedelta(hours=1))
    assert await under_test.reconcile(()) == 7200.0
    record = cache.freezes.get("release")
    assert record is not None
    assert (record.status["active"], gauge()) == (True, 1.0)
    assert server.writes == ["release", "release"]
    await under_test.reconcile(())
    assert server.writes == ["release", "release"]
    clock.append(NOW + timedelta(hours=3))
    assert await under_test.reconcile(()) is None
    assert gauge() == 0.0


async def test_a_freeze_that_ended_while_another_replica_led_freezes_no_nodepool() -> None:
    cache, _, earlier = controller()
    put(cache, "release", {})
    await earlier.reconcile(())
    assert gauge() == 1.0
    _, _, again = controller()
    await again.reconcile(())
    assert gauge() == 0.0


async def test_one_freeze_that_cannot_be_written_does_not_stop_the_others() -> None:
    cache, server, under_test = controller()
    put(cache, "broken", {"windows": [{"schedule": "0 2 * * *", "duration": "1h", "timezone": "Berlin"}]})
    put(cache, "release", {})
    assert await under_test.reconcile(()) in (None, LONGEST_WAIT)
    assert sorted(server.writes) == ["broken", "release"]
    record = cache.freezes.get("broken")
    assert record is not None
    assert record.status["active"] is True
    condition = next(entry for entry in record.status["conditions"] if entry["type"] == "ValidationSucceeded")
    assert "Berlin" in condition["message"]
