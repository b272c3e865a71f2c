"""What a worker learns about its place at the start: the region, and the address of cluster DNS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import SERVICES
from tests.activities.node.fake_kube import Clock, FakeKube
from tests.instance_metadata import serving
from worker.runtime.assembly import dns_address, region_of_environment
from worker.settings import SettingsError


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    with serving("eu-north-1a") as endpoint:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint)
        yield


@pytest.mark.integration
@pytest.mark.usefixtures("metadata")
def test_the_region_is_that_of_the_instance_where_no_variable_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert region_of_environment() == "eu-north-1"
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert region_of_environment() == "us-west-2"


@pytest.mark.integration
@pytest.mark.usefixtures("metadata")
def test_without_variable_and_metadata_the_worker_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SettingsError, match="AWS_REGION is required"):
        region_of_environment()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({"clusterIP": "172.20.0.53"}, "172.20.0.53"), ({"clusterIP": "fd00::a"}, "fd00::a"), ({"clusterIP": "None"}, "")],
)
async def test_aws102_cluster_dns_is_the_address_of_the_service(spec: dict[str, str], expected: str) -> None:
    kube = FakeKube(Clock())
    assert await dns_address(cast("Any", kube)) == "", "a cluster without the Service"
    kube.add(SERVICES, {"metadata": {"name": "kube-dns", "namespace": "kube-system", "uid": "dns"}, "spec": spec})
    assert await dns_address(cast("Any", kube)) == expected


async def test_aws102_a_worker_that_may_not_read_the_service_starts() -> None:
    class Forbidding(FakeKube):
        async def get(self, *_: Any, **__: Any) -> None:
            raise ForbiddenError(403, "Forbidden", "services kube-dns is forbidden")

    assert await dns_address(cast("Any", Forbidding(Clock()))) == ""
