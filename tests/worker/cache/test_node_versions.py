"""The planning view of NodePools under a rollout: which version launches, and what is read for it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.evolve import evolve
from tenon.kube.decode import decode_object
from tenon.provisioning.readiness import usable_pools
from tenon.rollout.revisions import class_key, revision_of, to_object
from tests.activities.provisioning.fake_view import node_class, node_pool
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.node_versions import decode_revision
from worker.cache.planning_view import PlanningView

LATER = "echo later"


def written(model: NodePool | EC2NodeClass, version: str) -> Any:
    body = json.loads(model.model_dump_json(by_alias=True, exclude_none=True))
    body["metadata"]["resourceVersion"] = version
    return decode_object(json.dumps(body).encode())


class Cluster:
    """NodePool default, whose class got other user data after its first version was recorded."""

    def __init__(self) -> None:
        self.cache = ClusterCache(cast("Any", None))
        self.view = PlanningView(self.cache)
        self.pool, self.ec2_class = node_pool(), node_class()
        self.old = revision_of(self.pool, self.ec2_class)
        self.later_class = evolve(
            self.ec2_class,
            metadata=evolve(self.ec2_class.metadata, generation=self.ec2_class.metadata.generation + 1),
            spec=evolve(self.ec2_class.spec, user_data=LATER),
            status=evolve(
                self.ec2_class.status,
                conditions=[
                    evolve(condition, observed_generation=self.ec2_class.metadata.generation + 1)
                    for condition in self.ec2_class.status.conditions
                ],
            ),
        )
        self.new = revision_of(self.pool, self.later_class)
        self.cache.pools.on_event("default", written(self.pool, "1"))
        self.cache.nodeclasses.on_event("default", written(self.later_class, "2"))

    def record(self, *revisions: Any) -> None:
        for number, revision in enumerate(revisions, start=1):
            record = decode_revision(json.dumps(to_object(revision, "tenon", number)).encode())
            self.cache.versions.revisions.on_event(record.key, record)

    def rollout(self, **row: Any) -> None:
        body = {
            "metadata": {"name": "nodes", "uid": "1", "resourceVersion": json.dumps(row)},
            "spec": {},
            "status": {"nodePools": [{"name": "default", **row}] if row else []},
        }
        self.cache.versions.rollouts.on_event("nodes", decode_object(json.dumps(body).encode()))

    def launches(self) -> tuple[str, str | None]:
        """The version of ordinary launches, and the user data of their class."""
        (pool,) = self.view.node_pools()
        ec2_class = self.view.node_class(class_key(pool))
        assert ec2_class is not None
        assert usable_pools([pool], self.view.node_class, self.view) == [pool]
        return pool.metadata.annotations.get(labels.REVISION, ""), ec2_class.spec.user_data


def test_without_a_rollout_nodepools_are_as_users_wrote_them() -> None:
    cluster = Cluster()
    cluster.record(cluster.old)
    assert cluster.launches() == ("", LATER)
    assert cluster.view.node_pools()[0] is cluster.view.specs()[0]
    assert cluster.view.rollouts() == {}
    assert cluster.view.wave_pools() == []


def test_a_nodepool_keeps_the_version_that_passed_and_its_own_class() -> None:
    cluster = Cluster()
    cluster.record(cluster.old, cluster.new)
    cluster.rollout(phase="Halted", currentRevision=cluster.old.digest, targetRevision=cluster.new.digest)
    assert cluster.launches() == (cluster.old.digest, cluster.old.class_spec.user_data)
    snapshot = cluster.view.snapshot()
    (pool,) = snapshot.node_pools()
    ec2_class = snapshot.node_class(class_key(pool))
    assert ec2_class is not None
    assert ec2_class.spec.user_data == cluster.old.class_spec.user_data
    raw = cluster.view.node_class("default")
    assert raw is not None
    assert raw.spec.user_data == LATER, "what users wrote stays readable for drift and status"


def test_a_nodepool_that_the_status_does_not_name_yet_launches_its_newest_version() -> None:
    cluster = Cluster()
    cluster.rollout()
    assert cluster.launches() == (cluster.new.digest, LATER)


def test_a_class_that_became_unready_launches_what_passed() -> None:
    cluster = Cluster()
    cluster.record(cluster.old)
    cluster.rollout(phase="Settled", currentRevision=cluster.old.digest)
    failed = [evolve(condition, status="False") for condition in cluster.later_class.status.conditions]
    broken = evolve(cluster.later_class, status=evolve(cluster.later_class.status, conditions=failed))
    cluster.cache.nodeclasses.on_event("default", written(broken, "3"))
    assert cluster.launches() == (cluster.old.digest, cluster.old.class_spec.user_data)


def test_nodes_of_a_wave_get_the_target_while_it_is_rolled_out() -> None:
    cluster = Cluster()
    cluster.record(cluster.old, cluster.new)
    row = {"currentRevision": cluster.old.digest, "targetRevision": cluster.new.digest, "waveClaims": ["a"]}
    cluster.rollout(phase="Progressing", **row)
    (wave_pool,) = cluster.view.wave_pools()
    assert wave_pool.metadata.annotations[labels.REVISION] == cluster.new.digest
    ec2_class = cluster.view.node_class(class_key(wave_pool))
    assert ec2_class is not None
    assert ec2_class.spec.user_data == LATER
    assert cluster.view.snapshot().node_class(class_key(wave_pool)) is ec2_class
    assert cluster.launches()[0] == cluster.old.digest
    cluster.rollout(phase="RollingBack", **row)
    assert cluster.view.wave_pools() == []


def test_no_node_is_replaced_by_a_version_that_is_not_recorded() -> None:
    cluster = Cluster()
    cluster.record(cluster.old)
    row = {"currentRevision": cluster.old.digest, "targetRevision": cluster.new.digest, "waveClaims": ["a"]}
    cluster.rollout(phase="Progressing", **row)
    state = cluster.view.rollouts()["default"]
    assert not state.may_replace("a")
    assert f"ControllerRevision default-{cluster.new.digest} does not exist" in state.why_not()
    assert cluster.view.wave_pools() == []


def test_a_version_that_a_user_wrote_on_a_nodepool_launches_nothing_else() -> None:
    cluster = Cluster()
    forged = evolve(cluster.pool, metadata=evolve(cluster.pool.metadata, annotations={labels.REVISION: "0123456789"}))
    cluster.cache.pools.on_event("default", written(forged, "9"))
    assert cluster.launches() == ("", LATER)


def test_plans_are_made_again_when_another_version_passed() -> None:
    cluster = Cluster()
    cluster.record(cluster.old, cluster.new)
    cluster.rollout(phase="Progressing", currentRevision=cluster.old.digest, targetRevision=cluster.new.digest)
    before = cluster.view.fingerprint()
    with cluster.cache.subscribe([Topic.ROLLOUT]) as news:
        cluster.rollout(phase="Settled", currentRevision=cluster.new.digest)
        assert news.take() == [(Topic.ROLLOUT, "nodes")]
    assert cluster.view.fingerprint() != before


def test_a_controllerrevision_of_something_else_is_left_out() -> None:
    with pytest.raises(ValueError, match="holds no version"):
        decode_revision(b'{"metadata":{"name":"web-1"},"data":{"spec":{}}}')


def test_faults_are_those_of_the_version_that_launches() -> None:
    cluster = Cluster()
    cluster.record(cluster.old)
    cluster.rollout(phase="Settled", currentRevision=cluster.old.digest)
    template = cluster.pool.spec.template
    bad = evolve(template, metadata=evolve(template.metadata, labels={"kubernetes.io/hostname": "a"}))
    edited = evolve(cluster.pool, spec=evolve(cluster.pool.spec, template=bad))
    cluster.cache.pools.on_event("default", written(edited, "9"))
    (raw,), (launching,) = cluster.view.specs(), cluster.view.node_pools()
    assert cluster.view.pool_faults(raw)
    assert not cluster.view.pool_faults(launching)
