"""A worker that cannot begin, as its operator sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.ports import free_ports
from worker.runtime.child_processes import EXIT_UNUSABLE

pytestmark = pytest.mark.integration


def test_what_is_missing_at_the_start_is_one_sentence_for_both_processes(tmp_path: Path) -> None:
    """OPS: printed by each process, in the words of a library, it was six lines that said the same twice."""
    probes, metrics, webhook = free_ports(3)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TEMPORAL_", "KUBE", "OTEL_"))}
    ended = subprocess.run(
        [sys.executable, "-m", "cli", "worker", "--cluster-name", "c"],
        env={
            **inherited,
            "TEMPORAL_ADDRESS": "127.0.0.1:1",  # Temporal may come later, so that is no reason to end
            "KUBECONFIG": str(tmp_path / "none"),
            "HEALTH_PROBE_PORT": str(probes),
            "METRICS_PORT": str(metrics),
            "WEBHOOK_PORT": str(webhook),
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == EXIT_UNUSABLE
    (sentence,) = ended.stderr.splitlines()
    assert sentence.startswith("The Kubernetes client cannot be configured: the file ")
