"""Whether an io process takes itself for the newest revision of its Deployment, which is to get the workflows."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiError, ApiUnreachableError, ForbiddenError
from activities.kubernetes.resources import DEPLOYMENTS, PODS, REPLICASETS, Resource
from worker.runtime.temporal.worker_versions import REVISION, is_newest_revision

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class Api:
    """A Deployment in its second revision, with a pod of the revision ``revision``; raises ``errors`` first."""

    def __init__(self, revision: str, errors: list[ApiError] | None = None) -> None:
        self.errors = errors or []
        self.objects: dict[Resource, dict[str, Any]] = {
            PODS: {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "tenon-1"}]}},
            REPLICASETS: {
                "metadata": {
                    "annotations": {REVISION: revision},
                    "ownerReferences": [{"kind": "Deployment", "name": "tenon"}],
                }
            },
            DEPLOYMENTS: {"metadata": {"annotations": {REVISION: "2"}}},
        }

    async def get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop()
        return self.objects[resource]


@pytest.fixture(autouse=True)
def _in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "tenon-1-a")


@pytest.mark.parametrize(("revision", "is_newest"), [("1", False), ("2", True)])
async def test_an_api_server_that_does_not_answer_makes_no_old_process_the_newest(
    revision: str, is_newest: bool
) -> None:
    """It would send the workflows back to its version in the middle of a rollout."""
    errors = [ApiError(503, "ServiceUnavailable", "etcd is away"), ApiUnreachableError("https://x", "refused")]
    assert await is_newest_revision(cast("Any", Api(revision, errors))) == is_newest


async def test_a_process_that_may_not_read_its_deployment_takes_itself_for_the_newest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await is_newest_revision(cast("Any", Api("1", [ForbiddenError(403, "Forbidden", "no")])))
    (line,) = caplog.records
    assert line.getMessage() == "The worker cannot read the revision of its Deployment, and takes itself for the newest"
