"""Two clusters of one AWS account that launch and end many nodes at once, inside the account's request limits.

``python -m benchmarks.account`` runs against the sandbox's EC2 with its limits at their real sizes. Each cluster has
clients of its own, as its worker has. Launches go through the product's own preparation, request and answer; ends go
through its collector.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.provider import Ec2Provider
from activities.ec2.termination_batch import Terminations
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.evolve import evolve
from tenon.lifecycle.messages.launch import LaunchGroup, LaunchResult

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

CLUSTERS = ("first", "second")
REGION = "us-west-2"
THREADS = 64
"""As many as a worker uses for launches."""
TIMEOUT = 300.0
MAX_FLEETS_PER_GROUP = 2
MAX_POLLS_PER_SECOND = 3


@dataclass(frozen=True)
class Figures:
    """The results of one run."""

    launches: int
    launched: int
    groups: int
    fleets_of_a_group: int
    """Maximum number of CreateFleet calls for one launch group."""
    calls: Mapping[str, int]
    refused: Mapping[str, int]
    """Calls that the account's request limits refused, by bucket."""
    failures: Sequence[str]
    """Error messages of launches that returned no instance."""
    launch_seconds: float
    ended: int
    looks_a_second: int
    """Maximum number of DescribeInstances calls within one second while instances were terminating."""
    end_seconds: float

    @property
    def faults(self) -> list[str]:
        """Broken expectations, one sentence each."""
        found = []
        if self.failures:
            found.append(f"{len(self.failures)} launches failed: {Counter(self.failures).most_common(3)}")
        if self.launched != self.launches:
            found.append(f"{self.launched} instances were bought for {self.launches} claims")
        if self.fleets_of_a_group > MAX_FLEETS_PER_GROUP:
            found.append(f"a group took {self.fleets_of_a_group} CreateFleet calls")
        if self.looks_a_second > MAX_POLLS_PER_SECOND:
            found.append(f"{self.looks_a_second} DescribeInstances calls came within a second")
        return found


@dataclass
class _Cluster:
    name: str
    provider: Ec2Provider
    results: list[LaunchResult | Exception] = field(default_factory=list)


def drill(server: Server, *, launches: int = 600, group: int = 20, endings: int = 200) -> Figures:
    """Launch claims from two clusters at once, then terminate some of the instances.

    Args:
        server: the EC2 server to run against.
        launches: number of claims of all clusters.
        group: number of claims per launch group.
        endings: number of instances to terminate.
    """
    world = server.world
    clusters, node_class = _clusters(server)
    world.calls.clear()
    world.buckets.fill()
    share = launches // len(clusters)
    began = time.monotonic()
    with ThreadPoolExecutor(THREADS * len(clusters)) as threads:
        waiting = [
            (cluster, threads.submit(_launch, cluster, node_class, number, group))
            for number in range(share)
            for cluster in clusters
        ]
        for cluster, each in waiting:
            cluster.results.append(each.result())
    launch_seconds = time.monotonic() - began
    calls = Counter(call["action"] for call in world.calls.listing())
    sent = (call["parameters"] for call in world.calls.listing("CreateFleet"))
    tokens = Counter(each["ClientToken"] for each in sent if "DryRun" not in each)
    results = [result for cluster in clusters for result in cluster.results]
    bought = {each.instance.id for each in results if isinstance(each, LaunchResult) and each.instance}

    world.book.timing.shutting_down = 8.0
    world.calls.clear()
    began = time.monotonic()
    ended = asyncio.run(_end(clusters, endings // len(clusters)))
    looks = [call["time"] for call in world.calls.listing("DescribeInstances")]
    return Figures(
        launches=share * len(clusters),
        launched=len(bought),
        groups=len(tokens),
        fleets_of_a_group=max(tokens.values(), default=0),
        calls=dict(calls),
        refused=dict(world.buckets.listing()["refused"]),
        failures=[_failure(each) for each in results if _failure(each)],
        launch_seconds=launch_seconds,
        ended=ended,
        looks_a_second=max((sum(at <= other < at + 1 for other in looks) for at in looks), default=0),
        end_seconds=time.monotonic() - began,
    )


def _clusters(server: Server) -> tuple[list[_Cluster], EC2NodeClass]:
    described = describe_cluster(Ec2(REGION, server.endpoint), "sandbox")
    clusters = [
        _Cluster(name, Ec2Provider(Ec2(REGION, server.endpoint), replace(described, name=name))) for name in CLUSTERS
    ]
    discovery = [{"tags": {"karpenter.sh/discovery": "sandbox"}}]
    written = EC2NodeClass.model_validate(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default", "generation": 1},
            "spec": {
                "role": "KarpenterNodeRole-sandbox",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": discovery,
                "securityGroupSelectorTerms": discovery,
            },
        }
    )
    resolved = [cluster.provider.resolve_node_class(written) for cluster in clusters]
    for cluster in clusters:
        cluster.provider.catalogue.warm()
    return clusters, evolve(written, status=resolved[0])


def _launch(cluster: _Cluster, node_class: EC2NodeClass, number: int, size: int) -> LaunchResult | Exception:
    place = LaunchGroup(id=f"1-{number // size}", ordinal=number % size, size=size)
    try:
        request = cluster.provider.prepare_launch(_claim(cluster.name, number), node_class, 1)
        return cluster.provider.launch(evolve(request, group=place))
    except Exception as error:  # a claim would receive this error
        return error


def _claim(cluster: str, number: int) -> NodeClaim:
    wanted: list[dict[str, Any]] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "c5.large"]},
    ]
    return NodeClaim.model_validate(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {
                "name": f"{cluster}-{number}",
                "uid": f"{cluster}-{number}",
                "labels": {"karpenter.sh/nodepool": "default"},
            },
            "spec": {
                "requirements": wanted,
                "resources": {"requests": {"cpu": "1"}},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            },
        }
    )


async def _end(clusters: Sequence[_Cluster], each: int) -> int:
    async def of(cluster: _Cluster) -> int:
        endings = Terminations(cluster.provider)
        bought = [one.instance.id for one in cluster.results if isinstance(one, LaunchResult) and one.instance]
        states = await asyncio.gather(*(endings.terminate(instance_id, TIMEOUT) for instance_id in bought[:each]))
        return sum(state in (None, "terminated") for state in states)

    return sum(await asyncio.gather(*(of(cluster) for cluster in clusters)))


def _failure(result: LaunchResult | Exception) -> str:
    if isinstance(result, Exception):
        return str(result)
    return "" if result.instance else result.message or result.reason


def report(figures: Figures) -> str:
    """Format the results as text."""
    lines = [
        f"launched {figures.launched} of {figures.launches} in {figures.launch_seconds:.1f} s, {figures.groups} groups",
        f"CreateFleet calls of one group: {figures.fleets_of_a_group} at most",
        f"calls to EC2 while launching: {dict(sorted(figures.calls.items()))}",
        f"calls that the account's limits refused: {figures.refused or 'none'}",
        f"ended: {figures.ended} in {figures.end_seconds:.1f} s,"
        f" {figures.looks_a_second} DescribeInstances calls a second at most",
    ]
    return "\n".join([*lines, *(f"FAULT: {fault}" for fault in figures.faults)])


def main() -> int:
    """Run the drill on an EC2 server of its own and print the results. Return 1 if an expectation is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.account", description=__doc__)
    parser.add_argument("--launches", type=int, default=600, help="claims of both clusters together")
    parser.add_argument("--group", type=int, default=20, help="claims with the same requests")
    parser.add_argument("--endings", type=int, default=200, help="instances that are ended afterwards")
    chosen = parser.parse_args()
    from sandbox.ec2.authorization.identities import ADMINISTRATOR_KEY, environment
    from sandbox.ec2.server import start

    os.environ |= environment(ADMINISTRATOR_KEY)  # no worker may act for two clusters
    with tempfile.TemporaryDirectory() as folder:
        server = start(Path(folder))
        try:
            figures = drill(server, launches=chosen.launches, group=chosen.group, endings=chosen.endings)
        finally:
            server.close()
    print(report(figures))
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
