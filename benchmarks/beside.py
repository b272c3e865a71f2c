"""Runs `tenon shadow` on a sandbox as the chart's Deployment runs it.

The process has the container's arguments and variables, and the token of the chart's ServiceAccount with its rights.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.cluster import Object
from sandbox import helm, kubeconfig
from sandbox.cluster import Sandbox
from sandbox.layout import NAMESPACE

CHART = Path(__file__).resolve().parent.parent / "deploy/chart"
NAME = "tenon-shadow"
"""Of the Deployment and of the ServiceAccount, which must not be the one of the sandbox's worker."""
READS = frozenset({"get", "list", "watch"})
WATCHES, WATCHES_WITHIN = "Watching;", 120.0
"""What it says once its model has begun, and the seconds until then."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What a client sent to the API server."""

    by_verb: Mapping[str, int]
    refused: int
    """Requests for which it has no right."""


def documents(manifests: Path, metrics_port: int) -> list[Object]:
    """Render the chart.

    Raises:
        HelmError: Helm rejected the chart.
    """
    values = {
        "settings.clusterName": "sandbox",
        "fullnameOverride": NAME,
        "shadow.enabled": "true",
        "shadow.args": "{--no-aws,-o,json}",
        "controller.metrics.port": str(metrics_port),
    }
    sets = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    text = helm.template(CHART, *sets, "--set-file", f"shadow.manifests={manifests}")
    return [document for document in yaml.safe_load_all(text) if document]


def install(sandbox: Sandbox, rendered: list[Object]) -> Path:
    """Create everything but the Deployment, which needs an image, and return its ServiceAccount's kubeconfig."""
    sandbox.apply([document for document in rendered if document["kind"] != "Deployment"])
    token = sandbox.kubectl("create", "token", NAME, f"--namespace={NAMESPACE}", "--duration=24h").strip()
    file = sandbox.layout.root / f"{NAME}.kubeconfig"
    authority = (sandbox.layout.pki / "ca.crt").read_bytes()
    kubeconfig.with_token(file, sandbox.kubernetes_endpoint, authority, token, NAMESPACE)
    return file


class Beside:
    """The process of the Deployment's container. Its volumes are in a folder."""

    user = f"system:serviceaccount:{NAMESPACE}:{NAME}"

    def __init__(self, sandbox: Sandbox, folder: Path, manifests: Path, metrics_port: int) -> None:
        rendered = documents(manifests, metrics_port)
        (deployment,) = (document for document in rendered if document["kind"] == "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {mount["mountPath"]: folder / mount["name"] for mount in container["volumeMounts"]}
        for volume in volumes.values():
            volume.mkdir(exist_ok=True)
        (config_map,) = (document for document in rendered if document["kind"] == "ConfigMap")
        for name, text in config_map["data"].items():
            (volumes["/manifests"] / name).write_text(text)
        self.log = folder / "shadow.log"
        self._command = [sys.executable, "-m", "cli", *(_in_volumes(text, volumes) for text in container["args"])]
        variables = {entry["name"]: _in_volumes(entry["value"], volumes) for entry in container["env"]}
        self._environment = {**os.environ, **variables, "KUBECONFIG": str(install(sandbox, rendered))}
        self._process: subprocess.Popen[bytes] | None = None
        self._output = folder / "report.json"
        self.first_report = 0.0
        """Seconds from the start until its file had a report."""
        self.cpu_seconds = 0.0
        self.memory = 0
        """The most bytes that it had."""

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log, self._output.open("wb") as output:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=output, stderr=log)

    async def until_watching(self) -> None:
        """Wait until its model has begun. A load that comes earlier would be on the other controller's nodes in it.

        Raises:
            RuntimeError: it failed.
            TimeoutError: it does not watch in time.
        """
        assert self._process is not None
        async with asyncio.timeout(WATCHES_WITHIN):
            while WATCHES not in self.log.read_text():
                if self._process.poll() is not None:
                    raise RuntimeError(f"tenon shadow failed: {self.log.read_text()}")
                await asyncio.sleep(0.2)

    async def watch(self) -> None:
        """Note when the first report is there, and what the process uses, until canceled."""
        assert self._process is not None
        began, process = time.monotonic(), psutil.Process(self._process.pid)
        while True:
            if not self.first_report and await asyncio.to_thread(self._has_report):
                self.first_report = time.monotonic() - began
            times = process.cpu_times()
            self.cpu_seconds = times.user + times.system
            self.memory = max(self.memory, process.memory_info().rss)
            await asyncio.sleep(1)

    def _has_report(self) -> bool:
        command = [sys.executable, "-m", "cli", "shadow", "--last", "-o", "json"]
        done = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        return done.returncode == 0

    def stop(self) -> Object:
        """Stop it, and return its report.

        Raises:
            RuntimeError: it failed.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(120) != 0:
            raise RuntimeError(f"tenon shadow failed: {self.log.read_text()}")
        report: Object = json.loads(self._output.read_text())
        return report


def _in_volumes(text: str, volumes: Mapping[str, Path]) -> str:
    mounts = "|".join(map(re.escape, volumes))
    return re.sub(rf"(^|=)({mounts})/", lambda match: f"{match[1]}{volumes[match[2]]}/", text)


def requests_of(log: Path, user: str) -> Requests:
    """Count what a user sent, from the audit log. Its last line may not be complete yet."""
    verbs: dict[str, str] = {}
    refused: set[str] = set()
    with log.open() as lines:
        for line in lines:
            if user not in line or not line.endswith("\n"):
                continue
            entry: dict[str, Any] = json.loads(line)
            if entry["user"].get("username") == user:
                verbs[entry["auditID"]] = entry["verb"]  # a watch has an entry when it begins and one when it ends
                if entry.get("responseStatus", {}).get("code") == 403:
                    refused.add(entry["auditID"])
    return Requests(Counter(verbs.values()), len(refused))
