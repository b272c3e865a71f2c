"""Kubeconfigs that hold certificates: what is wrong with one, and two threads that connect by one at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.config import kube_config

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConfigError
from sandbox import kubeconfig
from sandbox.certificates import Authority

SHORTLY = 0.5
"""Seconds in which the second thread would have read what the first has not written yet."""


async def test_nobody_reads_a_certificate_that_another_thread_is_still_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client hands out the name of a certificate's file before the certificate is in it."""
    authority = Authority()
    path = tmp_path / "kubeconfig"
    kubeconfig.with_certificate(path, "https://127.0.0.1:1", authority.certificate, authority.client("worker"))
    writing, go_on = threading.Event(), threading.Event()

    def slowly(name: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if "w" in mode and not writing.is_set():
            writing.set()
            go_on.wait()
        return open(name, mode, *rest, **named)

    monkeypatch.setattr(kube_config, "open", slowly, raising=False)

    async def connect_and_close() -> None:
        await (await Kube.connect(str(path))).close()

    first = asyncio.create_task(asyncio.to_thread(asyncio.run, connect_and_close()))
    await asyncio.to_thread(writing.wait)
    second = asyncio.create_task(connect_and_close())
    await asyncio.wait({second}, timeout=SHORTLY)
    go_on.set()
    await asyncio.gather(first, second)


async def test_a_certificate_that_is_none_is_told_in_a_sentence(tmp_path: Path) -> None:
    authority = Authority()
    path = tmp_path / "kubeconfig"
    kubeconfig.with_certificate(path, "https://127.0.0.1:1", b"no certificate", authority.client("worker"))
    with pytest.raises(
        ConfigError, match=r"^The Kubernetes client cannot be configured: .*certificate.* Set KUBECONFIG"
    ):
        await Kube.connect(str(path))
