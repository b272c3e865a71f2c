"""The first day: a cluster and an account in which only `deploy/aws` made something for Tenon.

The test creates the stack of the CloudFormation template in the sandbox's AWS. What the sandbox has made for the worker
and the nodes beforehand is taken away.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, EVENTS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.region import REGION
from tests.deploy import stack
from tests.e2e.pools import SMALL, Pool, condition, fresh_pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.fleets import fleets
from tests.instance_metadata import serving
from tests.sandbox_clients import administrator
from tests.sandbox_fixture import BOOT_SECONDS
from tests.workflows.waiting import until

RIGHTS = (
    "ec2:DescribeSubnets",
    "ec2:DescribeSecurityGroups",
    "ssm:GetParameter",
    "ec2:DescribeImages",
    "iam:GetInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:TagInstanceProfile",
    "iam:AddRoleToInstanceProfile",
    "iam:PassRole",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateTags",
    "ec2:CreateFleet",
    "ec2:RunInstances",
)
"""The rights without which no class becomes ready, in the order in which a new class needs them."""
OTHER_IMAGE = {"ssm:GetParameter": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}}
"""A class that needs an answer which the worker does not remember, by right."""
NOTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A fresh cluster, with an account that has nothing for Tenon but the network."""
    with Sandbox.start(tmp_path_factory.mktemp("first-day"), boot_delay=BOOT_SECONDS) as running:
        iam, sqs, role = running.aws("iam"), running.aws("sqs"), f"KarpenterNodeRole-{running.cluster_name}"
        iam.remove_role_from_instance_profile(InstanceProfileName=role, RoleName=role)
        iam.delete_instance_profile(InstanceProfileName=role)
        iam.delete_role(RoleName=role)
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=running.cluster_name)["QueueUrl"])
        running.ec2().policy(NOTHING)
        yield running


@pytest.fixture(scope="module")
def ec2(sandbox: Sandbox) -> Ec2Admin:
    return sandbox.ec2()


@pytest.fixture(scope="module")
def outputs(sandbox: Sandbox) -> dict[str, str]:
    """What the stack made."""
    return stack.create(sandbox.aws("cloudformation"), sandbox.cluster_name, REGION)


@pytest.fixture(scope="module")
def policy(sandbox: Sandbox, ec2: Ec2Admin, outputs: dict[str, str]) -> dict[str, Any]:
    """The policy of the worker's role, in force."""
    document = stack.worker_policy(sandbox.aws("iam"), sandbox.cluster_name)
    ec2.policy(document)
    return document


@pytest.fixture(scope="module")
def worker(sandbox: Sandbox, policy: dict[str, Any], outputs: dict[str, str]) -> Iterator[WorkerProcess]:
    """A worker whose environment names no region: only the instance's metadata does."""
    with serving(f"{REGION}a") as metadata:
        running = WorkerProcess(
            sandbox,
            "first-day",
            AWS_REGION=None,
            AWS_EC2_METADATA_SERVICE_ENDPOINT=metadata,
            INTERRUPTION_QUEUE=outputs["InterruptionQueueName"],
        )
        running.start()
        yield running
        assert running.stop() == 0, f"see {running.log}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    async with administrator(sandbox) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pool(kube: Kube, sandbox: Sandbox, worker: WorkerProcess, outputs: dict[str, str]) -> AsyncIterator[Pool]:
    """A NodePool whose EC2NodeClass names the role that the stack made."""
    async with fresh_pool(kube, sandbox, requirements=SMALL, role=outputs["NodeRoleName"]) as pool:
        yield pool


def lacking(policy: dict[str, Any], right: str) -> dict[str, Any]:
    """The policy without one of its actions."""
    changed = copy.deepcopy(policy)
    for statement in changed["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        statement["Action"] = [action for action in actions if action != right]
    changed["Statement"] = [statement for statement in changed["Statement"] if statement["Action"]]
    assert changed != policy, f"the policy never granted {right}"
    return changed


async def test_what_deploy_aws_makes_is_enough_for_pods_to_run(pool: Pool, ec2: Ec2Admin) -> None:
    """Nothing is refused, from the start of the worker on; the region is that of the instance."""
    await pool.deploy(2)
    await pool.running(2)
    await pool.settled(len(await pool.claims()))
    assert ec2.rights()["refused"] == []


async def test_each_missing_right_is_named_on_the_class_and_given_back_all_goes_on(
    pool: Pool, kube: Kube, ec2: Ec2Admin, policy: dict[str, Any], outputs: dict[str, str]
) -> None:
    """AWS-167, EC-S7: the sentence says what to allow."""
    classes: dict[str, str] = {}
    try:
        for number, right in enumerate(RIGHTS):
            name = classes[right] = f"{pool.name}-{number}"
            ec2.policy(lacking(policy, right))
            body = pool.node_class(role=outputs["NodeRoleName"], **OTHER_IMAGE.get(right, {}))
            await kube.create(EC2NODECLASSES, {**body, "metadata": {"name": name}})
            await _named(kube, name, right)
            ec2.policy(policy)

        await asyncio.gather(*(_ready(kube, name) for name in classes.values()))
        await pool.deploy(1, "after")
        await pool.running(1, "after")
    finally:
        ec2.policy(policy)
        for name in classes.values():
            await kube.delete(EC2NODECLASSES, name)

    async def gone() -> bool:
        names = {ec2_nodeclass["metadata"]["name"] for ec2_nodeclass in await kube.list(EC2NODECLASSES)}
        return not names & set(classes.values())

    await until(gone)


async def test_a_right_to_launch_that_is_taken_away_later_is_named_on_the_claim(
    pool: Pool, ec2: Ec2Admin, policy: dict[str, Any]
) -> None:
    """LIF-01: the class stays ready until its next look, so the NodeClaim says it."""
    before = {claim["metadata"]["name"] for claim in await pool.claims()}
    ec2.policy(lacking(policy, "ec2:RunInstances"))
    await pool.deploy(1, "later")
    text: dict[str, Any] = {}

    async def named() -> bool:
        for claim in await pool.claims():
            if claim["metadata"]["name"] not in before:
                text.update(condition(claim, "Launched"))
        return "ec2:RunInstances" in text.get("message", "")

    try:
        await until(named)
    finally:
        ec2.policy(policy)
    assert (text["status"], text["reason"]) == ("Unknown", "Unauthorized")
    await pool.running(1, "later")


async def test_without_the_service_linked_role_for_spot_pods_run_on_demand(
    kube: Kube, sandbox: Sandbox, worker: WorkerProcess, outputs: dict[str, str], ec2: Ec2Admin
) -> None:
    """A new account has no such role. One refusal rules out all spot capacity, and says how to create the role."""
    assert worker.running
    ec2.spot_role(False)
    async with fresh_pool(kube, sandbox, requirements=SMALL, role=outputs["NodeRoleName"]) as pool:
        await pool.deploy(1)
        (pod,) = await pool.running(1)
        (instance,) = pool.instances(await pool.claim_of(pod))
        assert instance["capacity_type"] == "on-demand"
        assert len(fleets(ec2, pool)) == 2, "the plan after the refused request buys on demand"
        events = await kube.list(EVENTS, field_selector="reason=SpotSLRCreationFailed")
        messages = [event["message"] for event in events if event["involvedObject"]["name"].startswith(pool.name)]
        assert any("AuthFailure.ServiceLinkedRoleCreationNotPermitted" in item for item in messages)


async def _named(kube: Kube, name: str, right: str) -> None:
    """Wait until a class says that it lacks a right, and that it is not ready for it."""
    names: list[str] = []

    async def told() -> bool:
        node_class = await kube.get(EC2NODECLASSES, name)
        conditions = ((node_class or {}).get("status") or {}).get("conditions") or []
        names[:] = [
            f"{condition['type']}: {condition['message']}" for condition in conditions if condition["status"] == "False"
        ]
        return any(f"allow {right} on " in item or f"allow {right} in " in item for item in names)

    try:
        await until(told)
    except TimeoutError:
        raise AssertionError(f"{name} lacks {right} and says {names}") from None
    assert condition(await kube.get(EC2NODECLASSES, name), "Ready")["status"] == "False"


async def _ready(kube: Kube, name: str) -> None:
    async def ready() -> bool:
        return condition(await kube.get(EC2NODECLASSES, name), "Ready").get("status") == "True"

    await until(ready)
