"""What the cluster process does not load, because each of its replicas would hold it in memory for nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
import worker.runtime.cluster_process

print([name for name in sys.modules if name.split(".")[0] == sys.argv[1]])
"""


@pytest.mark.parametrize("library", ["opentelemetry", "cryptography"])
def test_libraries_that_only_tracing_or_the_webhook_use_are_not_loaded(library: str) -> None:
    command = [sys.executable, "-c", CODE, library]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
