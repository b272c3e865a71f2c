"""The metrics of Temporal's client, which each process of a worker serves for itself and a scrape has as one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from worker.main import free_ports
from worker.runtime.child_processes import PID_SUFFIX, TEMPORAL_METRICS
from worker.runtime.telemetry.text_metrics import merged, process_text, temporal_text
from worker.runtime.temporal.temporal_client import runtime

IO = """# HELP temporal_request_total Requests
# TYPE temporal_request_total counter
temporal_request_total{process="io"} 5
# TYPE temporal_num_pollers gauge
temporal_num_pollers{process="io"} 2
"""
CLUSTER = """# HELP temporal_request_total Requests
# TYPE temporal_request_total counter
temporal_request_total{process="cluster"} 7
"""


def test_a_metric_of_both_processes_is_introduced_once() -> None:
    assert merged([IO, CLUSTER]).splitlines() == [
        "# HELP temporal_request_total Requests",
        "# TYPE temporal_request_total counter",
        'temporal_request_total{process="io"} 5',
        'temporal_request_total{process="cluster"} 7',
        "# TYPE temporal_num_pollers gauge",
        'temporal_num_pollers{process="io"} 2',
    ]


def test_met61_each_process_of_a_worker_says_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / f"io{PID_SUFFIX}").write_text(str(os.getppid()))
    (tmp_path / f"cluster{PID_SUFFIX}").write_text("999999999")
    families = text_string_to_metric_families(process_text(str(tmp_path)).decode())
    samples = [sample for family in families for sample in family.samples]
    memory = {s.labels["process"]: s.value for s in samples if s.name == "process_resident_memory_bytes"}
    assert memory.keys() == {"parent", "io"}, "a process that is gone is left out"
    assert min(memory.values()) > 0


@pytest.mark.integration
async def test_a_process_serves_the_metrics_of_temporals_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say of which process they are. A process that does not answer is left out."""
    port, nothing = free_ports(2)
    monkeypatch.setenv(TEMPORAL_METRICS, f"io 127.0.0.1:{port}")
    of_process = runtime.__wrapped__()  # it serves as long as it lives
    of_process.metric_meter.create_counter("temporal_made").add(2)
    text = await asyncio.to_thread(temporal_text, [f"127.0.0.1:{nothing}", f"127.0.0.1:{port}"])
    (family,) = text_string_to_metric_families(text.decode())
    assert [(sample.name, sample.labels["process"], sample.value) for sample in family.samples] == [
        (f"{family.name}_total", "io", 2.0)
    ]
    assert family.name == "temporal_made"


@pytest.mark.integration
async def test_a_process_whose_port_is_taken_works_without_these_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    async with server:
        monkeypatch.setenv(TEMPORAL_METRICS, f"io 127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert runtime.__wrapped__() is not None
