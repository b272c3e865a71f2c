"""The state folder of one sandbox, with the paths of all its files."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

CLUSTER_NAME = "sandbox"
NAMESPACE = "tenon"
SERVICE_ACCOUNT = "tenon"
REGION = "us-west-2"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"


def default_folder() -> Path:
    """``TENON_SANDBOX_DIR``, or else ``.sandbox`` in the current folder."""
    return Path(os.environ.get("TENON_SANDBOX_DIR") or ".sandbox")


@dataclass(frozen=True)
class Layout:
    """Paths under the state folder ``root`` (absolute)."""

    root: Path

    @classmethod
    def at(cls, folder: Path | str | None) -> Layout:
        """The layout of ``folder``, or of the default one."""
        return cls(Path(folder or default_folder()).expanduser().absolute())

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def control(self) -> Path:
        """The socket on which the supervisor receives commands."""
        return self.root / "control"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def ec2(self) -> Path:
        return self.root / "ec2"

    @property
    def temporal_db(self) -> Path:
        """Temporal's histories, if they are kept across `down` and `up`."""
        return self.root / "temporal.db"

    @property
    def temporal_fresh_db(self) -> Path:
        """Temporal's histories for the life of one sandbox, so that Temporal alone can be stopped and started."""
        return self.root / "temporal" / "fresh.db"

    @property
    def kwok_config(self) -> Path:
        return self.root / "kwok.yaml"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for users and tests."""
        return self.root / "kubeconfig"

    @property
    def worker_kubeconfig(self) -> Path:
        """Tenon's kubeconfig, with only its ServiceAccount's permissions."""
        return self.root / "worker.kubeconfig"

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
