"""``tenon teardown`` without a cluster: what it refuses, what it says of one that is under way, and its exit status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.teardown import app
from tenon.messages.teardown import TeardownInput, TeardownReport

ENDED = TeardownReport(cluster="prod", started_at=datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Temporal that has the teardown of the cluster, and a worker that carries it out."""
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    monkeypatch.setenv("TENON_SANDBOX_DIR", str(tmp_path))

    async def connect() -> Any:
        return SimpleNamespace(get_workflow_handle_for=lambda *_: SimpleNamespace(id="teardown/prod"))

    @asynccontextmanager
    async def served(*_: object, **__: object) -> AsyncIterator[None]:
        yield

    async def is_open(_handle: object) -> bool:
        return True

    async def followed(_handle: object, _output: str) -> TeardownReport:
        return ENDED

    monkeypatch.setattr("cli.teardown.connect", connect)
    monkeypatch.setattr("cli.teardown.served", served)
    monkeypatch.setattr("cli.tearing_down.workflow.is_open", is_open)
    monkeypatch.setattr("cli.tearing_down.workflow.followed", followed)


def tear_down(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["prod", "--yes", *arguments])


@pytest.mark.usefixtures("client")
def test_a_teardown_that_is_under_way_says_that_options_change_nothing() -> None:
    result = tear_down("--force", "--reason", "moved")
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        "A teardown of cluster prod is under way already, and goes on as it began: "
        "--force, --drain-timeout, --reason and --ticket change nothing.\n"
    )


@pytest.mark.usefixtures("client")
def test_a_report_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    result = tear_down("--report", str(tmp_path / "none" / "prod.md"))
    assert result.exit_code == 2
    assert "prod.md: No such file or directory." in result.stderr
    assert "prod" in result.stdout, "it is printed all the same"
    written = tmp_path / "prod.md"
    assert tear_down("--report", str(written)).exit_code == 0
    assert written.read_text() in result.stdout


@pytest.mark.usefixtures("client")
def test_a_worker_is_ignored_only_by_a_teardown_of_this_command() -> None:
    result = tear_down("--ignore-worker")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "--ignore-worker goes with --local-worker only.\n"


@pytest.mark.usefixtures("client")
def test_a_terminal_is_asked_for_the_reason_of_the_teardown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def is_open(_handle: object) -> bool:
        return False

    async def survey(*_: object) -> TeardownReport:
        return ENDED

    async def start(_client: object, begin: TeardownInput) -> Any:
        assert begin.reason == "moved"
        return SimpleNamespace(id="teardown/prod")

    monkeypatch.setattr("cli.tearing_down.workflow.is_open", is_open)
    monkeypatch.setattr("cli.tearing_down.workflow.survey", survey)
    monkeypatch.setattr("cli.tearing_down.workflow.start", start)
    monkeypatch.setattr("cli.nodes.requests.is_interactive", lambda: True)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    result = CliRunner().invoke(app, ["prod", "--yes"], input="moved\n")
    assert result.exit_code == 0, result.output
    assert "Why (for the timeline of the teardown): " in result.stdout
