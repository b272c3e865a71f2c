"""Which containers count as restarted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from activities.kubernetes.resources import PODS, Resource
from activities.rollout.container_restarts import ContainerCounts, count_containers

SINCE = datetime(2026, 11, 23, 12, tzinfo=UTC)


def container(ended: str = "", waits: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": waits}} if waits else {"running": {}}
    last = {"terminated": {"finishedAt": ended, "exitCode": 1}} if ended else {}
    return {"name": "c", "state": state, "lastState": last, "restartCount": 7}


def pod(*containers: dict[str, Any], owner: str = "ReplicaSet") -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}]
    return {"metadata": {"ownerReferences": owners}, "status": {"containerStatuses": list(containers)}}


class Server:
    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = list(pods)

    async def list(self, resource: Resource, *, field_selector: str, **_: Any) -> list[dict[str, Any]]:
        assert (resource, field_selector) == (PODS, "spec.nodeName=n")
        return self.pods


async def counted(*pods: dict[str, Any]) -> ContainerCounts:
    return await count_containers(cast("Any", Server(*pods)), "n", SINCE)


async def test_restarts_before_the_wave_do_not_count() -> None:
    early, late = container("2026-11-23T11:59:59Z"), container("2026-11-23T12:00:01Z")
    assert await counted(pod(early, late), pod(container())) == ContainerCounts(containers=3, restarts=1)


async def test_crash_loops_are_counted_apart() -> None:
    looping = container("2026-11-23T12:30:00Z", waits="CrashLoopBackOff")
    assert await counted(pod(looping, container(waits="ContainerCreating"))) == ContainerCounts(2, 1, 1)


async def test_pods_that_stay_on_their_node_say_nothing_about_a_version() -> None:
    looping = container(waits="CrashLoopBackOff")
    assert await counted(pod(looping, owner="DaemonSet"), pod(looping, owner="Node")) == ContainerCounts()


async def test_pods_of_ignored_controllers_do_not_count() -> None:
    looping = pod(container(waits="CrashLoopBackOff"))
    looping["metadata"]["ownerReferences"][0]["uid"] = "broken"
    server = cast("Any", Server(looping, pod(container())))
    assert await count_containers(server, "n", SINCE, ["broken"]) == ContainerCounts(containers=1)


async def test_a_pod_without_a_status_has_no_containers_yet() -> None:
    assert await counted({"metadata": {}}, {"metadata": {}, "status": {}}) == ContainerCounts()
