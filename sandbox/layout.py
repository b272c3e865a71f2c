"""The state folder of one sandbox, with the paths of all its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CLUSTER_NAME = "sandbox"
NAMESPACE = "tenon"
SERVICE_ACCOUNT = "tenon"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"


def default_folder() -> Path:
    """``TENON_SANDBOX_DIR``, or else ``.sandbox`` in the current folder."""
    return Path(os.environ.get("TENON_SANDBOX_DIR") or ".sandbox")


class Layout:
    """Paths under the state folder ``root`` (absolute)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.status = root / "status.json"
        self.lock = root / "lock"
        self.control = root / "control"
        """The socket on which the supervisor receives commands."""
        self.logs = root / "logs"
        self.pki = root / "pki"
        self.etcd = root / "etcd"
        self.ec2 = root / "ec2"
        self.temporal_db = root / "temporal.db"
        """Temporal's histories, if they are kept across `down` and `up`."""
        self.temporal_fresh_db = root / "temporal" / "fresh.db"
        """Temporal's histories for the life of one sandbox, so that Temporal alone can be stopped and started."""
        self.postgresql = root / "postgresql"
        self.fresh_postgresql = root / "temporal" / "postgresql"
        """The same with Temporal on PostgreSQL."""
        self.node = root / "node"
        """Everything of the real node, while it runs."""
        self.node_process = self.node / "process.json"
        """PID 1 of the real node."""
        self.egress = root / "egress.yaml"
        """Through what the API server reaches the real node and its pods."""
        self.kwok_config = root / "kwok.yaml"
        self.audit_policy = root / "audit-policy.yaml"
        self.audit_log = self.logs / "audit.log"
        """Every request to the API server, if the sandbox was started with an audit log."""
        self.record = root / "record.jsonl"
        self.kubeconfig = root / "kubeconfig"
        """The administrator's kubeconfig, for users and tests."""
        self.worker_kubeconfig = root / "worker.kubeconfig"
        """Tenon's kubeconfig, with only its ServiceAccount's permissions."""

    @classmethod
    def at(cls, folder: Path | str | None) -> Layout:
        """The layout of ``folder``, or of the default one."""
        return cls(Path(folder or default_folder()).expanduser().absolute())

    def component_kubeconfig(self, name: str) -> Path:
        """The kubeconfig of the component ``name``."""
        return self.pki / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def prepare(self) -> None:
        """Create the folders, readable only by this user, and delete the data of an earlier cluster."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
        for folder in (self.etcd, self.pki, self.ec2, self.temporal_fresh_db.parent, self.root / "kubectl-cache"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.kubeconfig, self.worker_kubeconfig):
            file.unlink(missing_ok=True)
        for folder in (self.etcd, self.pki, self.ec2, self.temporal_fresh_db.parent, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)
