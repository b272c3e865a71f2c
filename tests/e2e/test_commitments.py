"""WSH-38: Reserved Instances as a user sees them: nodes that they cover come first, as many as they cover."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.cluster import Sandbox
from sandbox.ec2.authorization.identities import POLICY, with_commitments_policy
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.other_worker import in_place_of
from tests.e2e.pools import SMALL, Pool
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

SETTING = "ENABLE_COMMITMENTS=true"
READ = "The controller read the account's Reserved Instances and Savings Plans"
COVERED = "Reserved Instances of m5 covers it, and is paid for until it is used up"


@contextmanager
def committed(sandbox: Sandbox, worker: Worker) -> Iterator[Worker]:
    """A worker with the setting and the rights for it, in place of the other one."""
    ec2 = sandbox.ec2()
    other = WorkerProcess(sandbox, "commitments", ENABLE_COMMITMENTS="true")
    try:
        ec2.policy(with_commitments_policy())
        with in_place_of(worker, other):
            yield other
    finally:
        ec2.policy(None)


def manifest(pool: Pool, path: Path) -> str:
    """A file with one more pod of a NodePool."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "more"}, "spec": pool.pod_spec()}
    path.write_text(json.dumps(body))
    return str(path)


async def test_wsh38_reserved_instances_are_used_until_they_are_used_up(
    make_pool: MakePool, sandbox: Sandbox, worker: Worker, tenon: Run, tmp_path: Path
) -> None:
    """Two m5.large are bought for three pods that need a node of 2 CPUs each. The third node is spot."""
    if not isinstance(worker, WorkerProcess):
        pytest.skip("the worker of this run is a pod, whose settings the chart sets")
    ec2 = sandbox.ec2()
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    ec2.policy(json.loads(POLICY.read_text()))  # so that the refusal is expected
    try:
        doctor = tenon("doctor", ENABLE_COMMITMENTS="true")
    finally:
        ec2.policy(None)
    assert "Plans do not use Reserved Instances and Savings Plans" in doctor.stdout
    assert "ec2:DescribeReservedInstances" in doctor.stdout
    ec2.reserved_instances("m5.large", 2)
    with committed(sandbox, worker) as own:

        async def worker_has_read() -> bool:
            """The worker itself: commands read the account for themselves."""
            return bool(own.logged(READ))

        await until(worker_has_read)
        assert "commitments" not in tenon("doctor", ENABLE_COMMITMENTS="true").stdout
        more = manifest(pool, tmp_path / "pod.json")

        async def covers() -> bool:
            plan = tenon("simulate", "--live", "--set", SETTING, "-f", more, "-o", "json")
            return COVERED in plan.stdout

        await until(covers)
        await pool.deploy(3)
        await pool.running(3)
        claims = await pool.settled(3)
        assert Counter(map(bought_as, claims)) == {("on-demand", "m5.large"): 2, ("spot", other_type(claims)): 1}
        reasons = [claim["metadata"]["annotations"][labels.EXPLANATION] for claim in claims]
        assert sum(COVERED in reason for reason in reasons) == 2
        plan = tenon("simulate", "--live", "--set", SETTING, "-f", more, "-o", "json")
        assert COVERED not in plan.stdout, "nothing is left for one more"


def bought_as(claim: dict[str, Any]) -> tuple[str, str]:
    own = claim["metadata"]["labels"]
    return own[labels.CAPACITY_TYPE], own[labels.INSTANCE_TYPE]


def other_type(claims: list[dict[str, Any]]) -> str:
    return next(kind for capacity_type, kind in map(bought_as, claims) if capacity_type == "spot")
