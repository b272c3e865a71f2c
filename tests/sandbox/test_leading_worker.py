"""Which worker leads in a sandbox, as `tenon sandbox status` says it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.sandbox import app
from sandbox import leading_worker
from sandbox.kubectl import KubectlError
from sandbox.leading_worker import holder_of
from sandbox.status import Addresses, Process, State, Status

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def lease(holder: str | None, age: float = 1.0, now: datetime = NOW) -> dict[str, Any]:
    """A Lease that was renewed so many seconds ago."""
    renewed = (now - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


@pytest.mark.parametrize(
    ("leases", "holder"),
    [
        ([], ""),
        ([{}], ""),
        ([lease("host_1")], "host_1"),
        ([lease("host_1", age=16)], ""),
        ([lease("")], ""),
        ([lease("killed_1", age=3600), lease("host_2")], "host_2"),
    ],
)
def test_the_holder_of_a_lease_that_is_renewed_leads(leases: list[dict[str, Any]], holder: str) -> None:
    """A worker that was killed leaves its Lease behind."""
    assert holder_of(leases, NOW) == holder


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """The folder of a sandbox that says that it is ready."""
    addresses = Addresses(kubernetes="https://127.0.0.1:1", temporal="127.0.0.1:2")
    Status(state=State.READY, supervisor=Process.of(os.getpid()), addresses=addresses).write(tmp_path / "status.json")
    return tmp_path


@pytest.mark.parametrize(("holder", "text"), [("host_1", "worker host_1 leads"), ("", "no worker leads")])
def test_status_says_whether_a_worker_leads(
    ready: Path, monkeypatch: pytest.MonkeyPatch, holder: str, text: str
) -> None:
    leases = [lease(holder, age=-3600, now=datetime.now(UTC))] if holder else []  # a slow machine lets none expire
    monkeypatch.setattr(leading_worker, "kubectl", lambda *_, **__: json.dumps({"items": leases}))
    answer = CliRunner().invoke(app, ["status", "--state", str(ready)])
    assert (answer.exit_code, text in answer.stdout) == (0, True)
    document = json.loads(CliRunner().invoke(app, ["status", "--state", str(ready), "-o", "json"]).stdout)
    assert document["leading_worker"]["holder"] == holder


def test_status_says_that_it_does_not_know(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> str:
        raise KubectlError("`kubectl get leases`: connection refused\nmore")

    monkeypatch.setattr(leading_worker, "kubectl", refused)
    answer = CliRunner().invoke(app, ["status", "--state", str(ready)])
    assert answer.exit_code == 0
    assert "whether a worker leads is not known: `kubectl get leases`: connection refused\n" in answer.stdout
