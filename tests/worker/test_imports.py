"""What a worker's processes do not load, because each of its replicas would hold it in memory for nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import importlib
import sys

importlib.import_module(sys.argv[1])
print([name for name in sys.modules if name.split(".")[0] == sys.argv[2]])
"""


@pytest.mark.parametrize(
    ("process", "library"),
    [
        ("worker.runtime.cluster_process", "opentelemetry"),  # only tracing
        ("worker.runtime.cluster_process", "cryptography"),  # only the webhook
        ("worker.runtime.cluster_process", "highspy"),  # only the lower bound of a simulation
        ("worker.runtime.io_process", "opentelemetry"),
        ("worker.runtime.io_process", "numpy"),  # only the scheduling engine
        ("worker.runtime.io_process", "highspy"),
    ],
)
def test_a_process_loads_no_library_that_it_does_not_use(process: str, library: str) -> None:
    command = [sys.executable, "-c", CODE, process, library]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
