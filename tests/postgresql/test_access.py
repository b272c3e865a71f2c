"""A Temporal that asks for client certificates or tokens: who has them works, who has not is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from activities.kubernetes.client import Kube
from sandbox.certificates import Authority
from sandbox.cluster import Sandbox
from sandbox.faults.frontend import Access, frontend
from sandbox.temporal import NAMESPACE, namespaces
from tests.postgresql.conftest import Working, live_and_end
from tests.postgresql.tokens import Issuer
from worker.runtime.temporal.search_attributes import ensure_search_attributes
from worker.runtime.temporal.temporal_client import TemporalError, connect
from worker.runtime.temporal.temporal_connection import Connection
from workflows.names import SEARCH_ATTRIBUTES

Environment = dict[str, str]


def with_certificate(address: str, folder: Path, trusted: Authority, own: Authority | None = None) -> Environment:
    """The variables of a worker that trusts one authority and has a certificate of another, or of none."""
    authority = folder / "trusted.crt"
    authority.write_bytes(trusted.certificate)
    result = {"TEMPORAL_ADDRESS": address, "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority)}
    if own is not None:
        certificate, key = own.client("worker").write(folder, "worker")
        result |= {"TEMPORAL_TLS_CLIENT_CERT_PATH": str(certificate), "TEMPORAL_TLS_CLIENT_KEY_PATH": str(key)}
    return result


def with_token(address: str, folder: Path, access: Access, token: str, namespace: str = NAMESPACE) -> Environment:
    """The variables of a worker with an API key."""
    return {
        **with_certificate(address, folder, access.authority),
        "TEMPORAL_API_KEY": token,
        "TEMPORAL_NAMESPACE": namespace,
    }


def use(monkeypatch: pytest.MonkeyPatch, environment: Environment) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


async def test_a_node_lives_where_temporal_asks_for_client_certificates(
    sandbox: Sandbox, working: Working, kube: Kube, tmp_path: Path
) -> None:
    access = Access(client_certificates=True)
    async with frontend(sandbox, tmp_path, access) as address:
        with working(**with_certificate(address, tmp_path, access.authority, access.authority)):
            await live_and_end(kube, sandbox)


@pytest.mark.parametrize("wrong", ["no certificate", "a stranger's certificate", "a stranger's server"])
async def test_a_wrong_certificate_is_one_sentence(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    access = Access(client_certificates=True)
    stranger = Authority()
    trusted = stranger if wrong == "a stranger's server" else access.authority
    own = {"no certificate": None, "a stranger's certificate": stranger}.get(wrong, access.authority)
    async with frontend(sandbox, tmp_path, access) as address:
        use(monkeypatch, with_certificate(address, tmp_path, trusted, own))
        with pytest.raises(TemporalError) as refused:
            await connect()
    text = str(refused.value)
    assert text.startswith(f"Temporal at {address} cannot be reached (")
    assert text.endswith(
        "): check TEMPORAL_ADDRESS, the certificates that TEMPORAL_TLS_... name, and that the server is up."
    )
    if wrong == "a stranger's server":
        assert "its certificate is not trusted: " in text
    assert "tonic" not in text


async def test_a_node_lives_with_an_api_key_that_may_only_write_one_namespace(
    sandbox: Sandbox, working: Working, kube: Kube, tmp_path: Path
) -> None:
    """The operator service is denied then, as on Temporal Cloud. The search attributes were made beforehand."""
    issuer = Issuer()
    access = Access(token_keys=issuer.write_keys(tmp_path / "keys.json"))
    async with frontend(sandbox, tmp_path, access) as address:
        token = issuer.token(f"{NAMESPACE}:write")
        with working(**with_token(address, tmp_path, access, token)) as worker:
            await live_and_end(kube, sandbox)
        assert "search attributes" not in worker.log.read_text()


async def test_attributes_that_only_an_administrator_may_add_are_named(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = Issuer()
    access = Access(token_keys=issuer.write_keys(tmp_path / "keys.json"))
    await namespaces.create(sandbox.temporal_address, "bare", attributes=False)
    async with frontend(sandbox, tmp_path, access) as address:
        use(monkeypatch, with_token(address, tmp_path, access, issuer.token("bare:write"), "bare"))
        with pytest.raises(TemporalError) as refused:
            await ensure_search_attributes(await connect())
    text = str(refused.value)
    assert text.startswith("Temporal namespace bare lacks search attributes and this worker may not add them; run: ")
    assert [key.name for key in SEARCH_ATTRIBUTES if key.name not in text] == []


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("a stranger's key", "refuses this client (Request unauthorized): check TEMPORAL_API_KEY."),
        ("no key", "refuses this client (Request unauthorized): check TEMPORAL_API_KEY."),
        (
            "a key of another namespace",
            f"refuses this client in the namespace {NAMESPACE} (Request unauthorized): "
            "check TEMPORAL_NAMESPACE and TEMPORAL_API_KEY.",
        ),
    ],
)
async def test_a_wrong_api_key_is_one_sentence(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, text: str
) -> None:
    issuer = Issuer()
    access = Access(token_keys=issuer.write_keys(tmp_path / "keys.json"))
    token = {
        "a stranger's key": Issuer().token(f"{NAMESPACE}:write"),
        "a key of another namespace": issuer.token("other:write"),
        "no key": "",
    }[wrong]
    async with frontend(sandbox, tmp_path, access) as address:
        use(monkeypatch, with_token(address, tmp_path, access, token))
        with pytest.raises(TemporalError) as refused:
            await Connection.open()
    assert str(refused.value) == f"Temporal at {address} {text}"
