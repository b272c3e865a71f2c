"""Secrets that are planted in user data, environments, pods and Secrets appear in nothing that Tenon writes or sends.

A worker of this module's own, at log level debug and with tracing on, carries the secrets through whole lives and
through failures. Then all that it left is searched, encodings opened; that the search can find is asserted as well.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import urllib.request
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToJson
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, EVENTS, LEASES, NODECLAIMS, NODEPOOLS, NODES, Resource
from sandbox.cluster import Sandbox
from tests.e2e.conftest import NewPool
from tests.e2e.other_worker import in_place_of
from tests.e2e.pools import NAMESPACE, SMALL, Object, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.otlp_receiver import OtlpReceiver
from tests.workflows.waiting import until

SECRETS = {
    "user data": "planted-userdata-5b1f7c20",
    "broken user data": "planted-broken-91d04e77",
    "user data that is too long": "planted-long-3e85aa61",
    "AWS_SECRET_ACCESS_KEY": "planted+aws/secret-0a5d27c9f4",
    "AWS_SESSION_TOKEN": "planted-session-7c3b19e8",
    "TEMPORAL_API_KEY": "planted-temporal-key-2f60b4d1",
    "a header for Temporal": "planted-header-c4d9e012",
    "a proxy's password": "planted-proxy-88e1f35a",
    "a pod's environment": "planted-pod-env-4d7702bc",
    "a Secret": "planted-secret-b90c6e3f",
}
SECRET = Resource("", "v1", "secrets", True, "Secret")
ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
DEPTH = 4
REPLICA = 7


def opened(content: bytes, depth: int = DEPTH) -> Iterator[bytes]:
    """The content, and whatever base64 and gzip in it wrap, as deep as payloads nest them."""
    yield content
    if depth == 0:
        return
    if content[:2] == b"\x1f\x8b":
        try:
            yield from opened(zlib.decompressobj(wbits=31).decompress(content), depth - 1)
        except zlib.error:
            return
    for run in set(ENCODED.findall(content)):
        text = run.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):  # the run may begin with characters that are not of the encoding
            piece = text[start:]
            piece = piece[: len(piece) - 1] if len(piece) % 4 == 1 else piece
            inner = base64.b64decode(piece + b"=" * (-len(piece) % 4))
            if inner[:2] == b"\x1f\x8b" or b"planted" in inner or (start == 0 and is_text(inner)):
                yield from opened(inner, depth - 1)


def is_text(content: bytes) -> bool:
    """Whether the content is text, which may wrap something again."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def holds(content: bytes, marker: str) -> bool:
    """Whether a marker is in the content, in whatever wrapping."""
    return any(marker.encode() in item for item in opened(content))


@dataclass
class Remainder:
    """All that was found, by where it was, with every encoding opened."""

    contents_by_place: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))

    def add(self, where: str, content: str | bytes) -> None:
        """One more content of a place."""
        self.contents_by_place[where].update(opened(content.encode() if isinstance(content, str) else content))

    def where(self, marker: str) -> set[str]:
        """The places that hold a marker."""
        encode = marker.encode()
        return {
            where
            for where, contents in self.contents_by_place.items()
            if any(encode in content for content in contents)
        }


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpReceiver]:
    """Receives the traces."""
    with OtlpReceiver().serving() as running:
        yield running


@pytest.fixture(scope="module")
def talkative(worker: WorkerProcess, sandbox: Sandbox, collector: OtlpReceiver) -> Iterator[WorkerProcess]:
    """A worker with secrets in its environment, in place of the usual one."""
    proxy = "http://somebody:{}@127.0.0.1:9".format(SECRETS["a proxy's password"])
    own = WorkerProcess(
        sandbox,
        "secrets-worker",
        replica=REPLICA,
        LOG_LEVEL="debug",
        AWS_SECRET_ACCESS_KEY=SECRETS["AWS_SECRET_ACCESS_KEY"],
        AWS_SESSION_TOKEN=SECRETS["AWS_SESSION_TOKEN"],
        TEMPORAL_API_KEY=SECRETS["TEMPORAL_API_KEY"],
        TEMPORAL_TLS="false",
        TEMPORAL_GRPC_META_X_SECRET=SECRETS["a header for Temporal"],
        HTTP_PROXY=proxy,
        HTTPS_PROXY=proxy,
        NO_PROXY="127.0.0.1,localhost",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
    )
    with in_place_of(worker, own):
        yield own


@dataclass
class Lives:
    """What the worker did, and what is left of it."""

    pool: Pool
    claim: str
    pod: str
    traces: Remainder
    user_data: bytes
    """What EC2 got."""


async def snapshot(kube: Kube, remainder: Remainder) -> None:
    """Events, and the objects that Tenon writes to, less the fields in which users wrote the secrets."""
    for event in await kube.list(EVENTS):
        remainder.add("events", json.dumps(event))
    for resource in (NODECLAIMS, NODEPOOLS, NODES, LEASES):
        for obj in await kube.list(resource):
            remainder.add("objects", json.dumps(obj))
    for obj in await kube.list(EC2NODECLASSES):
        del obj["spec"]
        remainder.add("objects", json.dumps(obj))


def conditions_of(obj: Object | None) -> list[Object]:
    """An object's conditions."""
    return list(((obj or {}).get("status") or {}).get("conditions") or ())


async def refused(kube: Kube, pool: Pool, remainder: Remainder, *words: str) -> None:
    """Wait until the EC2NodeClass, or a claim, says what is wrong with the user data; no instance was bought."""

    async def told() -> bool:
        await snapshot(kube, remainder)
        objects = [await kube.get(EC2NODECLASSES, pool.name), *await pool.claims()]
        text = " ".join(str(manifest.get("message")) for obj in objects for manifest in conditions_of(obj))
        events = await kube.list(EVENTS)
        text += " ".join(event["message"] for event in events if pool.name in event["involvedObject"]["name"])
        return all(word in text for word in words)

    await until(told)
    assert pool.instances() == []


def user_data_of(sandbox: Sandbox, instance_id: str) -> bytes:
    """The user data of an instance, as EC2 gives it out."""
    attribute = sandbox.aws("ec2").describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
    return str(attribute["UserData"]["Value"]).encode()


def scraped(sandbox: Sandbox) -> bytes:
    """What Prometheus would get."""
    url = f"http://127.0.0.1:{sandbox.worker_env(REPLICA)['METRICS_PORT']}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        content: bytes = answer.read()
    return content


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lives(
    talkative: WorkerProcess, new_pool: NewPool, sandbox: Sandbox, kube: Kube, client: Client, collector: OtlpReceiver
) -> AsyncIterator[Lives]:
    """Whole lives and failures with the secrets about; all that is left of them."""
    ec2 = sandbox.ec2()
    remainder = Remainder()
    began = datetime.now(UTC)
    secret = {"metadata": {"name": "planted"}, "stringData": {"password": SECRETS["a Secret"]}}
    await kube.create(SECRET, secret, NAMESPACE)
    script = f"#!/bin/bash\nexport TOKEN={SECRETS['user data']}\n"
    env = [
        {"name": "PASSWORD", "value": SECRETS["a pod's environment"]},
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "planted", "key": "password"}}},
    ]
    containers = [{"name": "main", "image": "pause", "env": env, "resources": {"requests": {"cpu": "1"}}}]
    bottlerocket = [{"alias": "bottlerocket@latest"}]
    broken = f"[settings\ntoken = '{SECRETS['broken user data']}"
    long = "#!/bin/bash\n" + f"# {SECRETS['user data that is too long']}\n" * 1000
    async with (
        new_pool(requirements=SMALL, userData=script) as pool,
        new_pool(userData=broken, amiSelectorTerms=bottlerocket, ready=False) as unreadable,
        new_pool(userData=long, ready=False) as too_long,
    ):
        ec2.fault("CreateFleet", "InternalError", status=500)
        ec2.fault("CreateFleet", "UnauthorizedOperation", message="You are not authorized to perform this operation.")
        await asyncio.gather(
            pool.deploy(1, containers=containers), unreadable.pod("one", containers=containers), too_long.pod("one")
        )
        await refused(kube, unreadable, remainder, "userData of a Bottlerocket class must be TOML")
        await refused(kube, too_long, remainder, "EC2 takes at most 16384")
        (pod,) = await pool.running(1)
        (claim,) = await pool.settled(1)
        name = claim["metadata"]["name"]
        await snapshot(kube, remainder)
        reached = await asyncio.to_thread(user_data_of, sandbox, pool.instances(name)[0]["id"])
        remainder.add("metrics", await asyncio.to_thread(scraped, sandbox))
        await pool.scale(0)
        await pool.gone(name)
        await snapshot(kube, remainder)
    await snapshot(kube, remainder)
    await kube.delete(SECRET, "planted", namespace=NAMESPACE)
    await collect(client, remainder, began)
    remainder.add("logs", await asyncio.to_thread(talkative.log.read_bytes))

    async def traced() -> bool:
        return any(name.encode() in body for body in list(collector.bodies))

    await until(traced)
    for body in list(collector.bodies):
        remainder.add("traces", body)
    yield Lives(pool, name, pod["metadata"]["name"], remainder, reached)


async def collect(client: Client, remainder: Remainder, began: datetime) -> None:
    """Every history that was written to since, and what Temporal lists of its workflow: search attributes, memos."""
    kinds = set()
    async for execution in client.list_workflows(f"ExecutionStatus = 'Running' OR CloseTime >= '{began.isoformat()}'"):
        kinds.add(execution.workflow_type)
        remainder.add("search attributes and memos", MessageToJson(execution.raw_info))
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        remainder.add("histories", (await handle.fetch_history()).to_json())
        description = await handle.describe()
        remainder.add("search attributes and memos", MessageToJson(description.raw_description))
    assert {"NodeClaim", "Provisioner", "Disruption", "NodeClass"} <= kinds


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_secret_is_in_nothing_that_tenon_leaves(lives: Lives, secret: str) -> None:
    """No history, search attribute, memo, log, event, object, metric or trace holds it, encoded or not."""
    assert lives.traces.where(SECRETS[secret]) == set()


async def test_the_search_finds_what_is_there(lives: Lives) -> None:
    """Each place was read, encodings were opened, and the user data did reach EC2."""
    assert lives.traces.where(lives.claim) >= {"histories", "events", "objects", "logs", "traces"}
    assert lives.traces.where(lives.pod) >= {"events", "objects"}
    assert lives.traces.where(f'nodepool="{lives.pool.name}"') == {"metrics"}
    assert "search attributes and memos" in lives.traces.where(lives.pool.name)
    assert holds(lives.user_data, SECRETS["user data"])
    for secret in SECRETS.values():
        wrapped = base64.b64encode(gzip.compress(f"x={secret}".encode()))
        assert holds(json.dumps({"data": base64.b64encode(b'{"a":"' + wrapped + b'"}').decode()}).encode(), secret)
