"""What the client library costs each process: its synchronous half is not loaded, and can be."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from activities.kubernetes.asynchronous import client, config

assert client.ApiClient and config.load_kube_config
halves = [name for name in sys.modules if name.startswith(("kubernetes.client", "kubernetes.aio.client"))]
print(sum(name.startswith("kubernetes.client") for name in halves), len(halves) > 100)

import kubernetes.client
from kubernetes import config as synchronous

print(kubernetes.client.CoreV1Api.__module__, synchronous.load_kube_config.__module__)
"""


def test_the_synchronous_client_is_loaded_only_by_whoever_asks_for_it() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["0 True", "kubernetes.client.api.core_v1_api kubernetes.config.kube_config"]
