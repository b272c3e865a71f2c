"""A VPC without internet: nothing asks IAM, and nodes are bought with the profile that their class names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tests.e2e.conftest import NewPool
from tests.e2e.other_worker import in_place_of, in_thread
from tests.e2e.pools import condition
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

IAM_CALLS = (
    "GetInstanceProfile",
    "ListInstanceProfiles",
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
    "GetRole",
)
ROLE, PROFILE = "KarpenterNodeRole-sandbox", "nodes-of-the-isolated-vpc"


@pytest_asyncio.fixture(loop_scope="session")
async def isolated(
    worker: WorkerProcess, sandbox: Sandbox, api: ApiProxy, ec2: Ec2Admin
) -> AsyncIterator[WorkerProcess]:
    """A worker with ISOLATED_VPC in place of the usual one, and a profile that an administrator made for the nodes."""
    iam = sandbox.aws("iam")
    iam.create_instance_profile(InstanceProfileName=PROFILE)
    iam.add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=ROLE)
    own = WorkerProcess(sandbox, "isolated-worker", KUBECONFIG=str(api.kubeconfig), ISOLATED_VPC="true")
    try:
        async with in_thread(in_place_of(worker, own)):
            yield own
    finally:
        ec2.clear_faults()
        iam.remove_role_from_instance_profile(InstanceProfileName=PROFILE, RoleName=ROLE)
        iam.delete_instance_profile(InstanceProfileName=PROFILE)


async def test_set22_nodes_are_bought_without_iam(
    isolated: WorkerProcess, new_pool: NewPool, kube: Kube, sandbox: Sandbox, ec2: Ec2Admin
) -> None:
    def calls_of_iam() -> int:
        return sum(len(ec2.calls(action)) for action in IAM_CALLS)

    for action in IAM_CALLS:
        ec2.fault(action, "ServiceUnavailable", status=503, count=None)
    ec2.clear_calls()  # its log forgets the oldest calls
    async with new_pool(role=None, instanceProfile=PROFILE) as pool:
        node_class = await kube.get(EC2NODECLASSES, pool.name)
        assert condition(node_class, "InstanceProfileReady")["status"] == "True"
        await pool.deploy(1)
        await pool.running(1)
        (instance,) = pool.instances()
        described = sandbox.aws("ec2").describe_instances(InstanceIds=[instance["id"]])
        profile = described["Reservations"][0]["Instances"][0]["IamInstanceProfile"]
        assert profile["Arn"].endswith(f"/{PROFILE}")
        await pool.scale(0)
    async with new_pool(ready=False) as by_role:

        async def refused() -> bool:
            result = condition(await kube.get(EC2NODECLASSES, by_role.name), "InstanceProfileReady")
            return result.get("reason") == "RoleInIsolatedVPC" and "spec.instanceProfile" in result["message"]

        await until(refused)
    assert calls_of_iam() == 0
