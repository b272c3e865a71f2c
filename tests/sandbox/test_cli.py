"""`tenon sandbox` where no sandbox runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.sandbox import app
from sandbox import leading_worker, stale_worker
from sandbox.build import BuildError
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.status import Addresses, ComponentStatus, Process, State, Status


def test_down_and_status_of_nothing_say_so(tmp_path: Path) -> None:
    down = CliRunner().invoke(app, ["down", "--state", str(tmp_path)])
    sentences = f"No sandbox runs in {tmp_path}. If one runs in another folder, name that with --state.\n"
    assert (down.exit_code, down.stdout) == (0, sentences)
    status = CliRunner().invoke(app, ["status", "--state", str(tmp_path)])
    assert status.exit_code == 1
    assert "there is no sandbox" in status.stdout


@pytest.mark.integration
def test_status_as_json_has_no_colour_and_all_addresses(tmp_path: Path) -> None:
    addresses = Addresses(kubernetes="https://127.0.0.1:1", temporal="127.0.0.1:2", temporal_ui="http://127.0.0.1:3")
    Status(state=State.READY, supervisor=Process.of(os.getpid()), addresses=addresses).write(tmp_path / "status.json")
    answer = CliRunner().invoke(app, ["status", "--state", str(tmp_path), "-o", "json"])
    assert answer.exit_code == 0
    document = json.loads(answer.stdout)
    assert document["addresses"]["temporal_ui"] == "http://127.0.0.1:3"
    assert document["kubeconfig"] == str(tmp_path / "kubeconfig")


@pytest.mark.integration
def test_a_stopped_component_is_named_and_the_sandbox_does_not_count_as_ready(tmp_path: Path) -> None:
    own = Process.of(os.getpid())
    running = ComponentStatus(state=State.READY, process=own)
    killed = ComponentStatus(state=State.READY, process=Process(pid=own.pid, created=own.created - 1000))
    parts = {"etcd": running, "temporal": ComponentStatus(state=State.STOPPED), "kwok": killed}
    addresses = Addresses(kubernetes="https://127.0.0.1:1", temporal="127.0.0.1:2")
    status = Status(state=State.READY, supervisor=own, addresses=addresses, components=parts)
    status.write(tmp_path / "status.json")
    answer = CliRunner().invoke(app, ["status", "--state", str(tmp_path)])
    assert answer.exit_code == 1
    assert answer.stdout.splitlines()[0] == "not ready: temporal is stopped; kwok is stopped"
    status.model_copy(update={"components": {"etcd": running}}).write(tmp_path / "status.json")
    assert CliRunner().invoke(app, ["status", "--state", str(tmp_path), "-o", "json"]).exit_code == 0


def test_up_that_cannot_build_is_one_sentence_and_status_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(_: object) -> Path:
        raise BuildError("Go could not build the control plane.")

    monkeypatch.setattr("sandbox.build.ensure", ensure)
    answer = CliRunner().invoke(app, ["up", "--state", str(tmp_path)])
    assert answer.exit_code == 2
    assert answer.stderr == "error: Go could not build the control plane.\n"


def test_attach_says_what_is_there_instead(tmp_path: Path) -> None:
    assert Sandbox.find(tmp_path) is None
    Status(state=State.FAILED, message="etcd ended").write(tmp_path / "status.json")
    with pytest.raises(SandboxError, match="it is failed: etcd ended"):
        Sandbox.attach(tmp_path)


def test_a_load_that_cannot_be_read_or_has_nowhere_to_go_is_one_sentence(tmp_path: Path) -> None:
    nowhere = CliRunner().invoke(app, ["load", "web", "90%", "--state", str(tmp_path)])
    assert nowhere.exit_code == 2
    assert "No sandbox is ready" in nowhere.stderr
    addresses = Addresses(kubernetes="https://127.0.0.1:1", temporal="127.0.0.1:2", temporal_ui="http://127.0.0.1:3")
    Status(state=State.READY, supervisor=Process.of(os.getpid()), addresses=addresses).write(tmp_path / "status.json")
    answer = CliRunner().invoke(app, ["load", "web", "much", "--state", str(tmp_path)])
    assert answer.exit_code == 2
    assert "'much' is not a load: write 90%" in answer.stderr


@pytest.mark.integration
def test_a_worker_that_has_ended_by_itself_makes_the_sandbox_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox in which none was started is ready, and its status says that no worker leads."""
    monkeypatch.setattr(leading_worker, "kubectl", lambda *_, **__: json.dumps({"items": []}))
    addresses = Addresses(kubernetes="https://127.0.0.1:1", temporal="127.0.0.1:2")
    Status(state=State.READY, supervisor=Process.of(os.getpid()), addresses=addresses).write(tmp_path / "status.json")
    fresh = CliRunner().invoke(app, ["status", "--state", str(tmp_path)])
    assert (fresh.exit_code, fresh.stdout.splitlines()[0]) == (0, "ready, without a worker")
    stale_worker.note(tmp_path, 2**22)  # more than any process ID
    died = CliRunner().invoke(app, ["status", "--state", str(tmp_path)])
    assert died.exit_code == 1
    assert died.stdout.startswith("not ready: the worker has ended, and `tenon sandbox worker start` starts it again\n")
    stopped = CliRunner().invoke(app, ["worker", "stop", "--state", str(tmp_path)])
    assert stopped.stdout == "no worker runs\n"
    assert CliRunner().invoke(app, ["status", "--state", str(tmp_path)]).exit_code == 0


def test_a_worker_that_does_not_run_has_a_status_and_may_have_a_log(tmp_path: Path) -> None:
    status = CliRunner().invoke(app, ["worker", "status", "--state", str(tmp_path)])
    assert (status.exit_code, status.stdout) == (1, "no worker runs: `tenon sandbox worker start` starts one\n")
    missing = CliRunner().invoke(app, ["worker", "logs", "--state", str(tmp_path)])
    assert missing.exit_code == 2
    assert "no worker has run yet" in missing.stderr
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker.log").write_text("a\nb\nc\n")
    assert CliRunner().invoke(app, ["worker", "logs", "--tail", "2", "--state", str(tmp_path)]).stdout == "b\nc\n"
