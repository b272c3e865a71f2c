"""What a worker's processes do not load, because each of its replicas would hold it in memory for nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import importlib
import sys

importlib.import_module(sys.argv[1])
print(*sorted({name.split(".")[0] for name in sys.modules} & {*sys.argv[2:]}))
"""

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("process", "libraries"),
    [
        # opentelemetry only traces; cryptography serves only the webhook; highspy only the lower bound, later
        ("worker.runtime.cluster_process", ("opentelemetry", "cryptography", "highspy")),
        # numpy serves only the scheduling engine
        ("worker.runtime.io_process", ("opentelemetry", "numpy", "highspy")),
    ],
)
def test_a_process_loads_no_library_that_it_does_not_use(process: str, libraries: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", CODE, process, *libraries]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == ""
