"""Keeping the definitions: one thing that fails keeps nothing else from being done (V1B-09)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from itertools import pairwise
from typing import Any, cast

import pytest

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import CRDS, NODECLAIMS, NODEPOOLS, SECRETS
from tenon.apis.versions.definitions import NAMES, STORED_VERSION_MIGRATED
from tests.worker.webhook.kubes import OwnKube, refuses_nothing
from worker.settings import load
from worker.webhook.definitions import RETRY, DefinitionReconciler, reconcile_definitions
from worker.webhook.secret import SECRET


def definition(name: str, *, pair: bool = True) -> dict[str, Any]:
    versions = [{"name": "v1", "served": True, "storage": True}, {"name": "v1beta1", "served": pair, "storage": False}]
    stored = ["v1beta1", "v1"] if pair else ["v1"]
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"versions": versions},
        "status": {"storedVersions": stored},
    }


def cluster(**value: Any) -> OwnKube:
    """Three definitions, one NodePool that v1 refuses among others, and a NodeClaim."""
    objects = [(NODEPOOLS, {"metadata": {"name": name, "uid": name}}) for name in ("a", "bad", "c")]
    return OwnKube(
        (SECRETS, {"metadata": {"name": SECRET}, "data": {"ca.crt": b64encode(b"authority").decode()}}),
        *((CRDS, definition(name, **value)) for name in NAMES),
        *objects,
        (NODECLAIMS, {"metadata": {"name": "claim", "uid": "claim"}}),
    )


def bundle(kube: OwnKube, name: str) -> Any:
    spec = kube.objects["customresourcedefinitions", name]["spec"]
    return spec.get("conversion", {}).get("webhook", {}).get("clientConfig", {}).get("caBundle")


def stored(kube: OwnKube, name: str) -> Any:
    return kube.objects["customresourcedefinitions", name]["status"]["storedVersions"]


async def test_v1b09_an_object_that_v1_refuses_is_named_and_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    kube = cluster()
    written = []

    def refuses(verb: str, name: str) -> None:
        written.append(name)
        if name == "bad":
            raise ApiError(422, "Invalid", "taints must not name the same key twice")

    kube.refuses = refuses
    controller = DefinitionReconciler(cast("Kube", kube), load(cluster_name="c"))
    for _ in range(4):
        await controller.reconcile()
    assert all(bundle(kube, name) for name in NAMES)
    assert [stored(kube, name) for name in NAMES] == [["v1beta1", "v1"], ["v1"], ["v1"]]
    for name in ("a", "c"):
        marks = kube.objects["nodepools", name]["metadata"]["annotations"]
        assert marks[STORED_VERSION_MIGRATED] == "true"
        assert written.count(name) == 1
    lines = [record for record in caplog.records if "failed to rewrite v1beta1 objects" in record.message]
    assert len(lines) == 1
    assert "bad: taints" in lines[0].__dict__["error"]
    kube.refuses = refuses_nothing
    await controller.reconcile()
    assert stored(kube, NAMES[0]) == ["v1"]


async def test_a_definition_that_cannot_be_written_is_named_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kube = cluster()

    def refuses(verb: str, name: str) -> None:
        if name == NAMES[0]:
            raise ApiError(403, "Forbidden", "no")

    kube.refuses = refuses
    await DefinitionReconciler(cast("Kube", kube), load(cluster_name="c")).reconcile()
    assert [bool(bundle(kube, name)) for name in NAMES] == [False, True, True]
    own_lines = [record for record in caplog.records if record.name == loggers.WEBHOOK.name]
    assert [record.__dict__["object"] for record in own_lines] == [NAMES[0]]


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
@pytest.mark.parametrize("failure", [ApiError(409, "Conflict", "another client wrote"), OSError("no route")])
async def test_a_definition_that_could_not_be_written_is_written_soon(failure: Exception) -> None:
    """Until then, every request for v1beta1 fails."""
    kube = cluster()
    refused: list[str] = []

    def refuses(verb: str, name: str) -> None:
        if not refused:
            refused.append(name)
            raise failure

    kube.refuses = refuses
    keeping = asyncio.create_task(reconcile_definitions(cast("Kube", kube), load(cluster_name="c")))
    await asyncio.sleep(RETRY / 2)
    assert [bool(bundle(kube, name)) for name in NAMES] == [name not in refused for name in NAMES]
    assert refused
    await asyncio.sleep(RETRY)
    assert all(bundle(kube, name) for name in NAMES)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_definition_that_is_always_refused_is_retried_less_and_less_often() -> None:
    kube = cluster()
    clock = asyncio.get_running_loop().time
    retries = []

    def refuses(verb: str, name: str) -> None:
        if name == NAMES[0]:
            retries.append(clock())
            raise ApiError(403, "Forbidden", "you may not")

    kube.refuses = refuses
    keeping = asyncio.create_task(reconcile_definitions(cast("Kube", kube), load(cluster_name="c")))
    await asyncio.sleep(100)
    pauses = [round(later - earlier) for earlier, later in pairwise(retries)]
    assert pauses == [1, 2, 4, 8, 16, 20, 20, 20]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.parametrize("pair", [True, False])
async def test_a_webhook_that_is_put_off_although_objects_need_it_is_an_error(
    caplog: pytest.LogCaptureFixture, pair: bool
) -> None:
    """Values written for a Karpenter of before 1.0 often say so: there it meant another webhook."""
    await reconcile_definitions(cast("Kube", cluster(pair=pair)), load(cluster_name="c", disable_webhook=True))
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == pair
    for error in errors:
        assert "DISABLE_WEBHOOK" in error.message
        assert error.__dict__["customresourcedefinitions"] == list(NAMES)
