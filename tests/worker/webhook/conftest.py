"""The webhook of one replica on the session's sandbox, with a worker's rights, and the leader's part next to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest_asyncio

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from worker.settings import Settings, load
from worker.webhook.definitions import DefinitionReconciler
from worker.webhook.serving import Webhook

REPLICA = 7
"""Ports of its own in the sandbox."""


@dataclass
class Served:
    """The webhook, which can be stopped and started, and the client that looks at the cluster."""

    sandbox: Sandbox
    settings: Settings
    admin: Kube
    controller: DefinitionReconciler
    webhook: Webhook | None = field(default=None)

    def start(self) -> None:
        self.webhook = Webhook(self.settings, str(self.sandbox.worker_kubeconfig))
        self.webhook.start()

    def stop(self) -> None:
        if self.webhook is not None:
            self.webhook.shutdown()
        self.webhook = None


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def served(sandbox: Sandbox) -> AsyncIterator[Served]:
    """Serving; the definitions are kept when a test asks for it."""
    own = sandbox.worker_env(REPLICA)
    settings = load(cluster_name="sandbox", webhook_port=int(own["WEBHOOK_PORT"]), webhook_url=own["WEBHOOK_URL"])
    admin = await Kube.connect(str(sandbox.kubeconfig))
    worker = await Kube.connect(str(sandbox.worker_kubeconfig))
    served = Served(sandbox, settings, admin, DefinitionReconciler(worker, settings))
    served.start()
    yield served
    served.stop()
    await worker.close()
    await admin.close()
