"""A cluster in which things get lost: Kubernetes in memory, EC2 of the sandbox, workflows on a real Temporal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.worker import Worker

from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from activities.garbage_collection.sweep import GarbageCollection
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODES, Resource
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.base import ClaimRef
from tenon.messages.garbage_collection import GarbageCollectionInput, GarbageCollectionResult
from tenon.messages.launch import LaunchRequest
from tenon.node.state import NodeClaimInput
from tests.activities.garbage_collection.life import Life
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder, stamp
from tests.ec2.conftest import Administrator
from tests.ec2.samples import node_claim
from tests.workflows.waiting import until
from workflows import names
from workflows.garbage_collection import GarbageCollectionWorkflow, garbage_collection_id

FINALIZER = "karpenter.sh/termination"
LATER = timedelta(hours=2)
"""Past every grace."""


def some(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]


class PagedKube(FakeKube):
    """Lists are read in pages by the sweep; ``unlisted`` names are missing from them, as in a list that is late."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.unlisted: set[str] = set()
        self.broken: dict[str, ApiError] = {}

    async def request(self, method: str, path: str, *, query: dict[str, str]) -> bytes:
        assert method == "GET"
        plural = path.rsplit("/", 1)[-1]
        if plural in self.broken:
            raise self.broken[plural]
        objs = [obj for (kind, _, name), obj in sorted(self.objects.items()) if kind == plural]
        objs = [obj for obj in objs if obj["metadata"]["name"] not in self.unlisted]
        start, limit = int(query.get("continue") or 0), 7
        more = str(start + limit) if start + limit < len(objs) else ""
        return json.dumps({"metadata": {"continue": more}, "items": objs[start : start + limit]}).encode()


@dataclass
class Cluster:
    """What a test builds up and breaks, and the sweep over it. ``late`` is how far its clock is ahead.

    ``provider`` has the rights of the cluster's worker; ``ec2`` and ``buyer`` those of the account's administrator.
    """

    name: str
    client: Client
    provider: Ec2Provider
    buyer: Ec2Provider
    ec2: Ec2
    request: LaunchRequest
    kube: Any = field(default_factory=PagedKube)
    recorder: Any = field(default_factory=Recorder)
    late: timedelta = timedelta()
    pauses: list[float] = field(default_factory=list)
    sweeps: int = 0
    bought: int = 0

    def now(self) -> datetime:
        return datetime.now(UTC) + self.late

    def garbage_collection(self) -> GarbageCollection:
        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)

        return GarbageCollection(self.kube, self.recorder, self.provider, now=self.now, pause=pause)

    async def sweep(self, **value: Any) -> GarbageCollectionResult:
        self.sweeps += 1
        return await self.client.execute_workflow(
            GarbageCollectionWorkflow.run,
            GarbageCollectionInput(cluster=self.name, **value),
            id=f"{garbage_collection_id(self.name)}-{self.sweeps}",
            task_queue=names.task_queue(self.name),
        )

    def buy(self, claim: str, cluster: str = "", **tags: str) -> str:
        """An instance with the tags that a launch puts on it."""
        value = {**self.request.tags, "karpenter.sh/nodeclaim": claim, "Name": claim, **tags}
        value["eks:eks-cluster-name"] = cluster or self.name
        self.bought += 1
        token = f"{self.name}-{cluster}-{claim}-{self.bought}"
        result = self.buyer.launch(self.request.model_copy(update={"client_token": token, "tags": value}))
        assert result.instance is not None, result.message
        return result.instance.provider_id

    def instances(self) -> dict[str, tuple[str, dict[str, str]]]:
        """All of the account: id -> (state, tags)."""
        answer = self.ec2.ec2.describe_instances()
        return {
            instance["InstanceId"]: (instance["State"]["Name"], {tag["Key"]: tag["Value"] for tag in instance["Tags"]})
            for group in answer["Reservations"]
            for instance in group["Instances"]
        }

    def alive(self, cluster: str = "") -> set[str]:
        """The claims whose instances run, by tag."""
        return {
            tags.get("karpenter.sh/nodeclaim", "")
            for state, tags in self.instances().values()
            if state in ("pending", "running") and tags["eks:eks-cluster-name"] == (cluster or self.name)
        }

    def put_claim(self, name: str, provider_id: str, *conditions: str, **metadata: Any) -> None:
        at = stamp(self.now())
        self.kube.add(
            NODECLAIMS,
            {
                "metadata": {
                    "name": name,
                    "creationTimestamp": at,
                    "labels": {"karpenter.sh/nodepool": "default"},
                    "finalizers": [FINALIZER],
                    **metadata,
                },
                "spec": {"nodeClassRef": {"name": "default"}},
                "status": {
                    "providerID": provider_id,
                    "nodeName": f"node-{name}" if "Registered" in conditions else "",
                    "conditions": [
                        {"type": kind, "status": "True", "lastTransitionTime": at} for kind in ("Launched", *conditions)
                    ],
                },
            },
        )

    def put_node(self, claim: str, provider_id: str, *, ready: bool = True) -> None:
        self.kube.add(
            NODES,
            {
                "metadata": {
                    "name": f"node-{claim}",
                    "creationTimestamp": stamp(self.now()),
                    "finalizers": [FINALIZER],
                    "labels": {"karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/registered": "true"},
                    "ownerReferences": [{"kind": "NodeClaim", "name": claim, "uid": f"uid-{claim}"}],
                },
                "spec": {"providerID": provider_id},
                "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
            },
        )

    async def start(self, claim: str, *, deaf: bool = False) -> WorkflowHandle[Any, Any]:
        """The claim's workflow, as the bridge starts it."""
        return await self.client.start_workflow(
            Life.run,
            NodeClaimInput(claim=ClaimRef(cluster=self.name, name=claim, uid="deaf" if deaf else f"uid-{claim}")),
            id=names.nodeclaim_id(self.name, claim),
            task_queue=names.task_queue(self.name),
            search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, self.name)]),
            memo={names.UID_MEMO: f"uid-{claim}"},
        )

    async def put_life(self, claim: str) -> str:
        """A node at rest: claim, instance, Node and workflow."""
        provider_id = self.buy(claim, Name=f"node-{claim}")
        self.put_claim(claim, provider_id, "Registered")
        self.put_node(claim, provider_id)
        await self.start(claim)
        return provider_id

    async def open(self) -> set[str]:
        """The claims whose workflow is open, as the search knows them."""
        query = f"TenonCluster = '{self.name}' AND WorkflowType = 'NodeClaim' AND ExecutionStatus = 'Running'"
        return {workflow.id.rsplit("/", 1)[-1] async for workflow in self.client.list_workflows(query)}

    async def until_open(self, claims: set[str]) -> None:
        async def same() -> bool:
            return await self.open() == claims

        await until(same)

    def names(self, resource: Resource) -> set[str]:
        return set(self.kube.names(resource))

    def template(self, name: str, node_class: str, cluster: str = "") -> None:
        owner = cluster or self.name
        tags = {
            "eks:eks-cluster-name": owner,
            f"kubernetes.io/cluster/{owner}": "owned",
            "karpenter.k8s.aws/ec2nodeclass": node_class,
            "karpenter.sh/nodepool": "default",
        }
        self.ec2.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"UserData": "aGVsbG8="},
            TagSpecifications=[
                {
                    "ResourceType": "launch-template",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        )

    def templates(self) -> set[str]:
        pages = self.ec2.ec2.get_paginator("describe_launch_templates").paginate()
        return {launch_template["LaunchTemplateName"] for page in pages for launch_template in page["LaunchTemplates"]}


@asynccontextmanager
async def serving(
    name: str,
    client: Client,
    provider: Ec2Provider,
    worker_clients: Ec2,
    admin: Administrator,
    node_class: EC2NodeClass,
) -> AsyncIterator[Cluster]:
    """A cluster of this name on the account, with a worker for its sweeps."""
    facts = replace(provider.cluster, name=name)
    own, buyer = Ec2Provider(worker_clients, facts), Ec2Provider(admin, facts)
    own.catalogue = buyer.catalogue = provider.catalogue
    request = buyer.prepare_launch(node_claim(name="seed"), node_class, 1)
    cluster = Cluster(name, client, own, buyer, admin, request)
    cluster.kube.add(EC2NODECLASSES, {"metadata": {"name": "default"}})
    worker = Worker(
        client,
        task_queue=names.task_queue(name),
        workflows=[GarbageCollectionWorkflow, Life],
        activities=[cluster.garbage_collection().collect],
    )
    async with worker:
        yield cluster
