"""Refuses the calls that a caller's policy does not allow, in the words of AWS, and keeps what was used and refused."""

from __future__ import annotations

import base64
import json
import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from sandbox.ec2.authorization.identities import ACCOUNT, POLICY, Caller
from sandbox.ec2.authorization.policy import Decision, Policy, Request
from sandbox.ec2.region import PARTITION

RECORD = "TENON_SANDBOX_RIGHTS_RECORD"
"""Names a file to which each server appends the actions that callers use and the calls that it refuses."""
REFUSALS_KEPT = 1000


@dataclass(frozen=True)
class Refusal:
    """A request that the caller's policy does not allow."""

    action: str
    resource: str
    message: str
    """AWS's sentence, without the prefix and suffix that EC2 adds."""
    encoded: str
    """What EC2 adds as "encoded authorization failure message". Here it is JSON in base64."""
    expected: bool = False
    """The refusal is no defect of the policy: an administrator has replaced it, or the resource does not exist."""

    @property
    def ec2_message(self) -> str:
        """The whole message in an answer of EC2."""
        return (
            f"You are not authorized to perform this operation. {self.message}. "
            f"Encoded authorization failure message: {self.encoded}"
        )


class Judge:
    """The policies of all callers. Thread-safe."""

    def __init__(self, region: str, record: Path | None = None) -> None:
        self.enforced = True
        self._region = region
        path = os.environ.get(RECORD)
        self._record = record or (Path(path) if path else None)
        self._policies: dict[str, Policy] = {}
        self._replaced: dict[str, Policy] = {}
        self._used: set[str] = set()
        self._refused: deque[Refusal] = deque(maxlen=REFUSALS_KEPT)
        self._lock = Lock()

    def policy_of(self, cluster: str) -> Policy:
        """The policy of the worker's role in a cluster."""
        with self._lock:
            if cluster in self._replaced:
                return self._replaced[cluster]
            if cluster not in self._policies:
                self._policies[cluster] = shipped_policy(cluster, self._region)
            return self._policies[cluster]

    def replace(self, cluster: str, document: str | None) -> None:
        """Replace the policy of a cluster's worker. None restores the one that users install.

        Raises:
            PolicyError: the document is malformed.
        """
        policy = None if document is None else Policy.parse(document, variables(cluster, self._region))
        with self._lock:
            self._replaced.pop(cluster, None)
            if policy is not None:
                self._replaced[cluster] = policy

    def refuse(self, caller: Caller, requests: Iterable[Request]) -> Refusal | None:
        """The first of the requests that the caller may not make, or None. The administrator may do everything."""
        if not caller.cluster or not self.enforced:
            return None
        policy = self.policy_of(caller.cluster)
        for request in requests:
            decision = policy.decide(request)
            if decision is not Decision.ALLOWED:
                return self._refuse(caller, request, decision)
            self._use(request.action)
        return None

    def clear(self) -> None:
        """Restore the default policies, and forget what was used and refused."""
        with self._lock:
            self.enforced = True
            self._replaced.clear()
            self._refused.clear()

    def listing(self) -> dict[str, Any]:
        """Whether calls are judged, the actions that were used, and the requests that were refused."""
        with self._lock:
            refused = [asdict(item) for item in self._refused]
            return {"enforced": self.enforced, "used": sorted(self._used), "refused": refused}

    def _use(self, action: str) -> None:
        if action in self._used:
            return
        with self._lock:
            self._used.add(action)
        self._write({"used": action})

    def _refuse(self, caller: Caller, request: Request, decision: Decision) -> Refusal:
        # SQS spells its actions in lower case here.
        action = request.action.lower() if request.action.startswith("sqs:") else request.action
        why = (
            "with an explicit deny in an identity-based policy"
            if decision is Decision.EXPLICITLY_DENIED
            else f"because no identity-based policy allows the {action} action"
        )
        shown = {"allowed": False, "explicitDeny": decision is Decision.EXPLICITLY_DENIED, "context": asdict(request)}
        refusal = Refusal(
            action=request.action,
            resource=request.resource,
            message=f"User: {caller.arn} is not authorized to perform: {action} on resource: {request.resource} {why}",
            encoded=base64.urlsafe_b64encode(json.dumps(shown).encode()).decode(),
            expected=caller.cluster in self._replaced or not request.exists,
        )
        with self._lock:
            self._refused.append(refusal)
        entry = {"refused": refusal.action, "message": refusal.message, "expected": refusal.expected}
        self._write({**entry, "at": time.time()})
        return refusal

    def _write(self, entry: dict[str, Any]) -> None:
        if self._record is not None:
            with self._record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


def shipped_policy(cluster: str, region: str) -> Policy:
    """The policy that users attach to the worker's role in a cluster."""
    return Policy.parse(POLICY.read_text(encoding="utf-8"), variables(cluster, region))


def variables(cluster: str, region: str) -> dict[str, str]:
    """The values of the placeholders in the policy."""
    return {
        "AWS_PARTITION": PARTITION,
        "AWS_REGION": region,
        "AWS_ACCOUNT_ID": ACCOUNT,
        "CLUSTER_NAME": cluster,
    }
