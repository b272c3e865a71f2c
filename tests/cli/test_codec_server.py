"""The codec server as a browser and the ``temporal`` command use it."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payload

from cli.codec_server import MAX_BODY, app, application
from tests.command_line import invoke
from worker.runtime.temporal.payload_codec import EncryptionCodec

pytestmark = pytest.mark.integration

UI = "https://temporal.example.com"
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"i-0123456789abcdef0"')


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.yaml"
    secret = base64.b64encode(bytes(32)).decode()
    file.write_text(json.dumps({"keys": [{"name": "first", "secret": secret}]}))
    return file


@pytest.fixture
def codec(keys: Path) -> EncryptionCodec:
    return EncryptionCodec(keys)


@pytest_asyncio.fixture
async def server(codec: EncryptionCodec) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(application(codec, f"{UI}/"))) as test_client:
        yield test_client


def body(*payloads: Payload) -> dict[str, Any]:
    return {"payloads": [MessageToDict(payload) for payload in payloads]}


async def test_a_page_of_the_ui_reads_what_is_encrypted_and_what_never_was(
    server: TestClient[Any, Any], codec: EncryptionCodec
) -> None:
    (hidden,) = await codec.encode([PLAIN])
    headers = {"Origin": UI, "X-Namespace": "default"}
    answer = await server.post("/decode", json=body(hidden, PLAIN), headers=headers)
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == UI
    assert await answer.json() == body(PLAIN, PLAIN)


async def test_what_the_ui_sends_is_encrypted(server: TestClient[Any, Any], codec: EncryptionCodec) -> None:
    answer = await server.post("/encode", json=body(PLAIN), headers={"Origin": UI})
    (payload,) = (await answer.json())["payloads"]
    assert base64.b64decode(payload["metadata"]["encoding"]) == b"binary/encrypted"


async def test_the_ui_passes_the_browsers_preflight_request(server: TestClient[Any, Any]) -> None:
    answer = await server.options("/decode", headers={"Origin": UI, "Access-Control-Request-Method": "POST"})
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == UI
    assert "x-namespace" in answer.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize("method", ["post", "options"])
async def test_pages_of_others_may_not_ask(server: TestClient[Any, Any], codec: EncryptionCodec, method: str) -> None:
    (hidden,) = await codec.encode([PLAIN])
    answer = await server.request(method, "/decode", json=body(hidden), headers={"Origin": "https://evil.example.com"})
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "i-0123" not in await answer.text()


async def test_a_wrong_body_an_unknown_key_and_too_much_are_refused_in_a_sentence(server: TestClient[Any, Any]) -> None:
    assert (await server.post("/decode", data=b"[")).status == 400
    unknown = Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"lost"}, data=bytes(40))
    answer = await server.post("/decode", json=body(unknown))
    assert (answer.status, (await answer.text())[:47]) == (400, "A payload is encrypted with the key lost, which")
    assert (await server.post("/decode", data=b" " * (MAX_BODY + 1))).status == 413
    charset = {"Content-Type": "application/json; charset=unknown"}
    assert (await server.post("/decode", data=b"{}", headers=charset)).status == 400


async def test_the_browser_shows_why_something_is_refused(server: TestClient[Any, Any]) -> None:
    unknown = Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"lost"}, data=bytes(40))
    answer = await server.post("/decode", json=body(unknown), headers={"Origin": UI})
    assert answer.status == 400
    assert answer.headers["Access-Control-Allow-Origin"] == UI


def test_a_port_in_use_and_an_unknown_host_are_sentences(keys: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        in_use = invoke(app, ["--ui", UI, "--keys", str(keys), "--port", port])
    assert (in_use.exit_code, in_use.stderr) == (
        2,
        f"error: 127.0.0.1 port {port} cannot be used (Address already in use): correct --host or --port.\n",
    )
    unknown = invoke(app, ["--ui", UI, "--keys", str(keys), "--host", "nowhere.invalid"])
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith("error: nowhere.invalid port 8888 cannot be used (")


@pytest.mark.parametrize("ui", ["temporal.example.com", "ftp://temporal.example.com", "https://", f"{UI}/namespaces"])
def test_an_address_that_is_no_origin_of_a_page_is_refused(ui: str, keys: Path) -> None:
    refused = invoke(app, ["--ui", ui, "--keys", str(keys), "--host", "nowhere.invalid"])
    assert refused.exit_code == 2
    assert f"{ui!r} is not an origin, such as https://temporal.example.com" in refused.stderr
