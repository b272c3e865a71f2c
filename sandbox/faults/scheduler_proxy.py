"""Puts kube-scheduler behind a proxy of the API server, so that its watches can be late like those of other clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from sandbox.certificates import write_private
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy

SCHEDULER = "kube-scheduler"
ACCOUNT = "late-scheduler"
NAMESPACE = "kube-system"


@contextmanager
def scheduler_behind(sandbox: Sandbox, proxy: ApiProxy) -> Iterator[None]:
    """Run kube-scheduler behind the proxy. It gets a token, because proxies pass on nothing else."""
    sandbox.kubectl("create", "serviceaccount", ACCOUNT, f"--namespace={NAMESPACE}")
    rights = ("--clusterrole=cluster-admin", f"--serviceaccount={NAMESPACE}:{ACCOUNT}")
    sandbox.kubectl("create", "clusterrolebinding", ACCOUNT, *rights)
    token = sandbox.kubectl("create", "token", ACCOUNT, f"--namespace={NAMESPACE}", "--duration=1h").strip()
    path = sandbox.layout.component_kubeconfig(SCHEDULER)
    before = path.read_bytes()
    document = yaml.safe_load(before)
    document["clusters"][0]["cluster"]["server"] = proxy.endpoint
    document["users"][0]["user"] = {"token": token}
    try:
        write_private(path, yaml.safe_dump(document).encode())
        _restart(sandbox)
        yield
    finally:
        write_private(path, before)
        _restart(sandbox)
        sandbox.kubectl("delete", "clusterrolebinding", ACCOUNT)
        sandbox.kubectl("delete", "serviceaccount", ACCOUNT, f"--namespace={NAMESPACE}")


def _restart(sandbox: Sandbox) -> None:
    sandbox.stop_component(SCHEDULER)
    sandbox.start_component(SCHEDULER)
