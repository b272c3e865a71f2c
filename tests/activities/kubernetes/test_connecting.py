"""Kubeconfigs that hold certificates: what is wrong with one, and two threads that connect by one at once."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from kubernetes.aio.config import kube_config

from activities.kubernetes import access
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConfigError
from sandbox import kubeconfig
from sandbox.certificates import Authority
from tests.activities.kubernetes.fake_api import KUBECONFIG
from tests.workflows.waiting import until

SHORTLY = 0.5
"""Seconds in which the second thread would have read what the first has not written yet."""


async def test_no_thread_reads_a_certificate_that_another_is_still_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client hands out the name of a certificate's file before the certificate is in it."""
    authority = Authority()
    path = tmp_path / "kubeconfig"
    kubeconfig.with_certificate(path, "https://127.0.0.1:1", authority.certificate, authority.client("worker"))
    writing, go_on = threading.Event(), threading.Event()

    def slowly(name: Any, mode: str = "r", *rest: Any, **names: Any) -> Any:
        if "w" in mode and not writing.is_set():
            writing.set()
            go_on.wait()
        return open(name, mode, *rest, **names)

    monkeypatch.setattr(kube_config, "open", slowly, raising=False)

    async def connect_and_close() -> None:
        await (await Kube.connect(str(path))).close()

    first = asyncio.create_task(asyncio.to_thread(asyncio.run, connect_and_close()))
    await asyncio.to_thread(writing.wait)
    second = asyncio.create_task(connect_and_close())
    await asyncio.wait({second}, timeout=SHORTLY)
    go_on.set()
    await asyncio.gather(first, second)


async def test_an_invalid_certificate_is_reported_in_one_sentence(tmp_path: Path) -> None:
    authority = Authority()
    path = tmp_path / "kubeconfig"
    kubeconfig.with_certificate(path, "https://127.0.0.1:1", b"no certificate", authority.client("worker"))
    with pytest.raises(ConfigError, match=rf"the certificates of {path} cannot be read .* Set KUBECONFIG"):
        await Kube.connect(str(path))


@pytest.mark.integration
async def test_a_command_that_hands_out_no_credentials_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread of the process could connect meanwhile, and no signal would end it."""
    gc.collect()  # of earlier tests
    left_alone: list[int] = []
    report_as_before = sys.unraisablehook

    def report(unraisable: Any) -> None:
        """Note which command it is about: its transport fails in ``__del__``, because its loop is closed."""
        if unraisable.exc_traceback is not None:
            owner = unraisable.exc_traceback.tb_frame.f_locals.get("self")
            left_alone.append(getattr(owner, "_pid", 0))
        report_as_before(unraisable)

    monkeypatch.setattr(sys, "unraisablehook", report)
    monkeypatch.setattr(access, "LOAD_SECONDS", 0.5)
    path, file = tmp_path / "kubeconfig", tmp_path / "pid"
    manifest = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", f"echo $$ > {file}; exec sleep 1000"],
    }
    path.write_text(
        yaml.safe_dump({**yaml.safe_load(KUBECONFIG % 1), "users": [{"name": "fake", "user": {"exec": manifest}}]})
    )
    with pytest.raises(ConfigError, match=rf"the command that {path} names gave no credentials"):
        await Kube.connect(str(path))

    async def ended() -> bool:
        pid = file.read_text() if file.exists() else ""
        return not pid or not psutil.pid_exists(int(pid))

    await until(ended)
    gc.collect()  # a command that was left alone would be noticed now
    assert not file.exists() or int(file.read_text()) not in left_alone
