"""Encrypted payloads: Temporal's histories hold nothing of a node's life that only the owner of the keys may read."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from google.protobuf.json_format import MessageToDict
from temporalio.client import Client

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from sandbox.temporal import namespaces
from tests.e2e.conftest import NewPool, Run
from tests.e2e.other_worker import in_place_of
from tests.e2e.pools import SMALL
from tests.e2e.worker import Worker
from tests.e2e.worker_pods import WorkerPods
from tests.e2e.worker_process import WorkerProcess
from tests.faults.test_secrets import holds
from workflows.names import nodeclaim_id

NAMESPACE = "encrypted"
REPLICA = 8
SECRETS = {name: base64.b64encode(os.urandom(32)).decode() for name in ("old", "new")}


def write(path: Path, *names: str) -> None:
    """Replace the file of the keys, as the kubelet does when a Secret changes."""
    scratch = path.with_suffix(".new")
    scratch.write_text(yaml.safe_dump({"keys": [{"name": name, "secret": SECRETS[name]} for name in names]}))
    scratch.replace(path)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mktemp = tmp_path_factory.mktemp("keys") / "keys.yaml"
    write(mktemp, "old")
    return mktemp


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def namespace(sandbox: Sandbox) -> str:
    """A namespace of this module's own: the usual worker has no keys."""
    await namespaces.create(sandbox.temporal_address, NAMESPACE)
    return NAMESPACE


@pytest.fixture(scope="module")
def encrypting(worker: Worker, sandbox: Sandbox, keys: Path, namespace: str) -> Iterator[WorkerProcess]:
    """A worker with keys, in place of the usual one."""
    if isinstance(worker, WorkerPods):
        pytest.skip("The test changes the file of the keys; a kubelet does that up to a minute after the Secret.")
    own = WorkerProcess(
        sandbox,
        "encrypting-worker",
        replica=REPLICA,
        TEMPORAL_NAMESPACE=namespace,
        PAYLOAD_ENCRYPTION_CONFIG=str(keys),
    )
    with in_place_of(worker, own):
        yield own


@pytest_asyncio.fixture(loop_scope="session")
async def raw(sandbox: Sandbox, namespace: str) -> AsyncIterator[Client]:
    """A client without keys."""
    yield await Client.connect(sandbox.temporal_address, namespace=namespace)


async def histories(client: Client) -> str:
    """All events of all workflows of a namespace, and what lists of workflows tell, without search attributes.

    Temporal must read search attributes to search by them, so nothing encrypts them.
    """
    shown = []
    async for execution in client.list_workflows(""):
        shown.append(MessageToDict(execution.raw_info))
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        shown += [MessageToDict(event) async for event in handle.fetch_history_events()]
    return json.dumps(without_search_attributes(shown))


def without_search_attributes(shown: Any) -> Any:
    """The same values of JSON without what is under the key searchAttributes, at any depth."""
    if isinstance(shown, list):
        return [without_search_attributes(value) for value in shown]
    if isinstance(shown, dict):
        return {key: without_search_attributes(value) for key, value in shown.items() if key != "searchAttributes"}
    return shown


async def test_a_life_under_two_keys_can_be_read_with_them_and_not_without(
    encrypting: WorkerProcess, new_pool: NewPool, sandbox: Sandbox, keys: Path, raw: Client, tenon: Run, kube: Kube
) -> None:
    async with new_pool(requirements=SMALL) as pool:
        await pool.deploy(1)
        (pod,) = await pool.running(1)
        (claim,) = await pool.settled(1)
        await asyncio.to_thread(write, keys, "new", "old")  # a rotation while the node lives
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        instance = pool.instances(name)[0]["id"]
        with_keys = {"TEMPORAL_NAMESPACE": NAMESPACE, "PAYLOAD_ENCRYPTION_CONFIG": str(keys)}
        live = await asyncio.to_thread(tenon, "node", "show", name, **with_keys)
        assert live.returncode == 0, live.stderr
        await pool.scale(0)
        await pool.gone(name)
        shown = await asyncio.to_thread(tenon, "node", "show", name, "-o", "json", **with_keys)
        refused = await asyncio.to_thread(tenon, "node", "show", name, TEMPORAL_NAMESPACE=NAMESPACE)

    assert shown.returncode == 0, shown.stderr
    assert all(word in shown.stdout for word in (instance, uid)), "the keys show what Temporal hides"
    assert refused.returncode == 2
    assert refused.stderr.startswith("This payload in Temporal is encrypted with the key ")
    assert refused.stderr.count("\n") == 1
    text = await histories(raw)
    assert nodeclaim_id(sandbox.cluster_name, name) in text
    for key in SECRETS:
        assert base64.b64encode(key.encode()).decode() in text, f"nothing is encrypted with the key {key}"
    content = text.encode()
    plain = {
        "instance": instance,
        "claim's UID": uid,
        "pod": pod["metadata"]["name"],
        "node": claim["status"]["nodeName"],
    }
    assert [key for key, word in plain.items() if holds(content, word)] == []
