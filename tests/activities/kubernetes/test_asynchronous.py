"""What the client library costs each process: most of it is not loaded, and all of it can be used."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

CODE = """
import sys
from activities.kubernetes.asynchronous import client, config

assert client.ApiClient and config.load_kube_config
print(sum(name.startswith("kubernetes.") for name in sys.modules) < 30)

import kubernetes.client
from kubernetes import config as synchronous

print(kubernetes.client.CoreV1Api.__module__, synchronous.load_kube_config.__module__)
print(client.V1Pod.__module__, client.models.V1Node.__module__)
"""


def test_typed_models_are_loaded_when_code_asks_for_them() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "True",
        "kubernetes.client.api.core_v1_api kubernetes.config.kube_config",
        "kubernetes.aio.client.models.v1_pod kubernetes.aio.client.models.v1_node",
    ]
