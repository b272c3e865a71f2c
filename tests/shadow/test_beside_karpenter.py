"""``tenon shadow`` beside upstream Karpenter's own KWOK build: it reports, and it neither writes nor could.

It has a sandbox of its own, because upstream's CRDs take the place of Tenon's there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from activities.gate import StandingByError
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES, PODS
from benchmarks import beside, shadow
from benchmarks.running import sandboxed
from cli.shadowing.observed import read_only_client
from sandbox.kwok import SYSTEM_NODE
from sandbox.ports import free_ports
from tests.prometheus_server import PROGRAM, PrometheusServer, prometheus

pytestmark = pytest.mark.integration

SECONDS = 180.0
WRITTEN = (PODS, NODES, NODECLAIMS, NODEPOOLS)


DASHBOARD = json.loads((beside.CHART / "files/dashboards/tenon-shadow.json").read_text())


@pytest.fixture(scope="module")
def metrics_port() -> int:
    """Where the shadow serves its metrics."""
    (port,) = free_ports(1)
    return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Iterator[PrometheusServer | None]:
    """A Prometheus that scrapes the shadow, if the machine has one."""
    if PROGRAM is None:
        yield None
        return
    with prometheus(tmp_path_factory.mktemp("prometheus"), [f"127.0.0.1:{metrics_port}"]) as running:
        yield running


@pytest.fixture(scope="module")
def prediction(
    tmp_path_factory: pytest.TempPathFactory, metrics_port: int, server: PrometheusServer | None
) -> shadow.Prediction:
    """Three minutes of a load that comes and goes, with the chart's own shadow."""
    folder = tmp_path_factory.mktemp("shadow")
    return shadow.predict(Console(stderr=True), SECONDS, shadow.types(), folder, metrics_port, teams=1)


def test_the_charts_shadow_only_reads_and_may_read_all_that_it_asks_for(prediction: shadow.Prediction) -> None:
    requests = prediction.requests
    assert set(requests.by_verb) <= beside.READS, requests
    assert requests.by_verb["watch"] > 0
    assert requests.refused == 0


@pytest.mark.skipif(PROGRAM is None, reason="needs Prometheus: apt-get install prometheus")
@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: str(panel["title"]))
def test_each_query_of_the_dashboard_has_series(
    prediction: shadow.Prediction, server: PrometheusServer, panel: dict[str, Any]
) -> None:
    assert prediction.report
    for target in panel["targets"]:
        assert server.over_time(target["expr"]), target["expr"]


def test_the_first_report_is_there_within_ten_minutes(prediction: shadow.Prediction) -> None:
    assert 0 < prediction.beside.first_report < 600


def test_what_it_says_of_karpenter_is_what_karpenter_paid(prediction: shadow.Prediction) -> None:
    cost = prediction.report["cost"]
    rate = 3600 * cost["karpenterDollars"] / prediction.report["observedSeconds"]
    assert rate == pytest.approx(prediction.upstream.rate, rel=0.1)


def test_purchases_are_compared_and_the_model_places_every_pod(prediction: shadow.Prediction) -> None:
    report = prediction.report
    assert report["purchases"]["compared"] > 0
    assert report["purchases"]["pods"] > 0
    assert report["risks"]["unplaced"] == {}
    assert report["now"]["lowerBoundPricePerHour"] <= report["now"]["tenonPricePerHour"]


async def test_its_rights_and_its_client_refuse_every_write(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sandboxed(Console(stderr=True)) as sandbox:
        manifests = tmp_path_factory.mktemp("chart") / "manifests.yaml"
        manifests.touch()
        file = beside.install(sandbox, beside.documents(manifests, 8080))
        with_rights = await Kube.connect(str(file))
        monkeypatch.setenv("KUBECONFIG", str(sandbox.kubeconfig))
        administrator = await read_only_client()
        try:
            for client, error in ((with_rights, ForbiddenError), (administrator, StandingByError)):
                assert [node["metadata"]["name"] for node in await client.list(NODES)] == [SYSTEM_NODE]
                for resource in WRITTEN:
                    namespace = "default" if resource.namespaced else ""
                    body = {"metadata": {"name": "a"}}
                    with pytest.raises(error):
                        await client.create(resource, body, namespace)
                    with pytest.raises(error):
                        await client.patch(resource, "a", body, namespace=namespace)
                    with pytest.raises(error):
                        await client.delete(resource, "a", namespace=namespace)
        finally:
            await with_rights.close()
            await administrator.close()
