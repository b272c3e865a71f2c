"""A real Prometheus on loopback, which scrapes a worker and evaluates rules (apt-get install prometheus)."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from sandbox.ports import free_ports

PROGRAM = shutil.which("prometheus")
SECONDS = 2
"""Between two scrapes, and between two evaluations of the rules."""
MAX_STEPS = 5000
"""Prometheus refuses more than 11,000 points."""


class PrometheusServer:
    """Its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._began = time.time()

    def get(self, path: str, **query: str) -> Any:
        """What its API answers."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]

    def over_time(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has had since this Prometheus began.

        Raises:
            HTTPError: Prometheus cannot evaluate it.
        """
        now = time.time()
        window = {
            "start": str(self._began),
            "end": str(now),
            "step": str(max(SECONDS, (now - self._began) / MAX_STEPS)),
        }
        series: list[dict[str, Any]] = self.get("query_range", query=expression, **window)["result"]
        return series

    def names(self) -> set[str]:
        """The names of all series that it has scraped."""
        return set(self.get("label/__name__/values"))

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their health and state."""
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]


@contextmanager
def prometheus(folder: Path, targets: Sequence[str], rules: Path | None = None) -> Iterator[PrometheusServer]:
    """Run one that keeps its data in this folder."""
    assert PROGRAM is not None
    (port,) = free_ports(1)
    config = folder / "prometheus.yaml"
    every = f"{SECONDS}s"
    scrape = {"job_name": "tenon", "static_configs": [{"targets": list(targets)}]}
    settings = {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
    rule_files = [] if rules is None else [str(rules)]
    config.write_text(yaml.safe_dump({"global": settings, "rule_files": rule_files, "scrape_configs": [scrape]}))
    command = [PROGRAM, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        yield PrometheusServer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(30)
