"""The catalogue of all instance types of a region: how long reading and building it takes, and its memory.

``python -m benchmarks.instance_types`` reads the sandbox's EC2, which runs in a process of its own, as a worker does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.authorization.identities import environment, worker_key
from sandbox.ports import free_ports
from tenon.apis.ec2nodeclass import EC2NodeClass

REGION, CLUSTER = "us-west-2", "sandbox"
START_SECONDS = 60.0


@dataclass(frozen=True)
class Step:
    """One step: seconds in all, seconds of the CPU, and by how much the process grew."""

    name: str
    seconds: float
    cpu: float
    mebibytes: float


def measured(name: str, work: Callable[[], object]) -> Step:
    """Do the work and measure it."""
    process = psutil.Process()
    before, began, cpu = process.memory_info().rss, time.perf_counter(), time.process_time()
    work()
    return Step(
        name,
        time.perf_counter() - began,
        time.process_time() - cpu,
        (process.memory_info().rss - before) / 2**20,
    )


def run(endpoint: str, classes: int) -> tuple[list[Step], int, int]:
    """The steps, and the numbers of types and offerings of a class that allows all."""
    clients = Ec2(REGION, endpoint)
    provider = Ec2Provider(clients, _answered(lambda: describe_cluster(clients, CLUSTER)), dry_runs=False)
    steps = [measured("read types, offerings and prices", provider.catalogue.warm)]
    resolved = [_resolved(provider, number) for number in range(classes)]
    for number, each in enumerate(resolved, 1):
        # Another kubelet setting makes the types of each class different.
        steps.append(measured(f"build the types of class {number}", partial(provider.instance_types, each)))
    steps.append(measured("ask again for all classes", lambda: [provider.instance_types(each) for each in resolved]))
    found = provider.instance_types(resolved[0])
    return steps, len(found), sum(len(each.offerings) for each in found)


def _resolved(provider: Ec2Provider, number: int) -> EC2NodeClass:
    discovery = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    written = EC2NodeClass.model_validate(
        {
            "metadata": {"name": f"class-{number}", "uid": f"uid-{number}", "generation": 1},
            "spec": {
                "role": f"KarpenterNodeRole-{CLUSTER}",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": discovery,
                "securityGroupSelectorTerms": discovery,
                "kubelet": {"maxPods": 50 + number},
            },
        }
    )
    # Dry runs are off, because they would build the types before they are measured.
    return written.model_copy(update={"status": provider.resolve_node_class(written)})


def _answered(ask: Callable[[], Any]) -> Any:
    """The answer of a server that may still be starting."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return ask()
        except EC2Error:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=3)
    chosen = parser.parse_args(arguments)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as state, mock.patch.dict(os.environ, environment(worker_key(CLUSTER))):
        command = [sys.executable, "-m", "sandbox.ec2.server", f"--port={port}", f"--state={Path(state) / 'ec2'}"]
        server = subprocess.Popen(command)
        try:
            steps, types, offerings = run(f"http://127.0.0.1:{port}", chosen.classes)
        finally:
            server.terminate()
            server.wait()
    print(f"{types} types with {offerings} offerings")
    for step in steps:
        print(f"{step.name:36} {step.seconds:7.2f} s  {step.cpu:7.2f} s CPU  {step.mebibytes:+8.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
