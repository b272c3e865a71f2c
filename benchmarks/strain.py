"""Makes a burst harder: pod watches that are late, and clients that keep the API server busy.

In a burst on a busy control plane, kube-scheduler learns late which pods Tenon has bound. If it took their room for
free, kubelets would refuse pods.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import PODS
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from sandbox.faults.scheduler_proxy import scheduler_behind

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def strained(sandbox: Sandbox, late_seconds: float, readers: int) -> Iterator[dict[str, str]]:
    """Yield the settings of a worker under strain.

    Args:
        sandbox: the cluster.
        late_seconds: how late the watches of pods are, for kube-scheduler and for the worker; 0 for no delay.
        readers: how many processes list all pods again and again.
    """
    with ExitStack() as stack:
        settings: dict[str, str] = {}
        if late_seconds:
            proxies = [stack.enter_context(ApiProxy.start(sandbox)) for _ in range(2)]
            for proxy in proxies:
                proxy.delay_watches("pods", late_seconds)
            stack.enter_context(scheduler_behind(sandbox, proxies[0]))
            settings["KUBECONFIG"] = str(proxies[1].kubeconfig)
        for _ in range(readers):
            stack.enter_context(_reader(sandbox))
        yield settings


@contextmanager
def _reader(sandbox: Sandbox) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.strain", str(sandbox.kubeconfig)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield
        finally:
            process.terminate()


async def read(kubeconfig: str) -> None:
    """List all pods again and again."""
    kube = await Kube.connect(kubeconfig, qps=1000, burst=1000)
    while True:
        await kube.list(PODS)


def main() -> None:
    """The command line of one reader."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.strain", description="List all pods without end.")
    arguments.add_argument("kubeconfig")
    asyncio.run(read(arguments.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
