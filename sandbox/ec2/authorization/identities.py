"""The access keys of the sandbox: one that may do everything, and one for the role of each cluster's worker.

This module imports nothing heavy, because the command line and the tests use it too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.ec2.region import PARTITION

ACCOUNT = "123456789012"
ADMINISTRATOR_KEY = "sandbox-administrator"
SECRET = "sandbox"
"""The secret key of every access key. The sandbox checks no signatures."""
_POLICIES = Path(__file__).parents[3] / "deploy" / "iam"
POLICY = _POLICIES / "controller-policy.json"
"""The policy that users attach to the worker's role."""
COMMITMENTS_POLICY = _POLICIES / "commitments-policy.json"
"""The policy that they attach too if the worker is to read Reserved Instances and Savings Plans."""
SPOT_SCORES_POLICY = _POLICIES / "spot-scores-policy.json"
"""The policy that they attach too if NodePools follow Spot placement scores."""
_CREDENTIAL = re.compile(r"Credential=(?P<key>[^/]+)/")
_WORKER = re.compile(r"sandbox-worker\.(?P<cluster>.+)")


def worker_key(cluster: str) -> str:
    """The access key of the worker's role in a cluster."""
    return f"sandbox-worker.{cluster}"


def access_key(authorization: str) -> str:
    """The access key in the Authorization header of a signed call. Empty if it has none."""
    search = _CREDENTIAL.search(authorization)
    return search["key"] if search else ""


def environment(access_key: str) -> dict[str, str]:
    """The variables that give AWS clients these credentials."""
    return {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": SECRET}


def with_commitments_policy() -> dict[str, Any]:
    """The document of a role that may also read Reserved Instances and Savings Plans."""
    return _with(COMMITMENTS_POLICY)


def with_spot_scores_policy() -> dict[str, Any]:
    """The document of a role that may also read Spot placement scores."""
    return _with(SPOT_SCORES_POLICY)


def _with(policy: Path) -> dict[str, Any]:
    documents: list[dict[str, Any]] = [json.loads(path.read_text(encoding="utf-8")) for path in (POLICY, policy)]
    statements = [statement for document in documents for statement in document["Statement"]]
    return documents[0] | {"Statement": statements}


@dataclass(frozen=True)
class Caller:
    """The identity behind an access key. ``cluster`` is empty for the administrator."""

    arn: str
    cluster: str = ""

    @classmethod
    def of(cls, access_key: str) -> Caller | None:
        """The identity, or None if the account has no such key."""
        if access_key == ADMINISTRATOR_KEY:
            return cls(f"arn:{PARTITION}:iam::{ACCOUNT}:user/administrator")
        worker = _WORKER.fullmatch(access_key)
        if worker is None:
            return None
        cluster = worker["cluster"]
        return cls(f"arn:{PARTITION}:sts::{ACCOUNT}:assumed-role/TenonController-{cluster}/worker", cluster)
