"""``tenon shadow`` beside upstream Karpenter's own KWOK build: it reports, and it neither writes nor could.

It has a sandbox of its own, because upstream's CRDs take the place of Tenon's there.
"""

from __future__ import annotations

import pytest
from rich.console import Console

from activities.gate import StandingByError
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES, PODS
from benchmarks import shadow
from benchmarks.running import sandboxed
from cli.shadowing.observed import read_only_client

pytestmark = pytest.mark.integration

SECONDS = 180.0
WRITTEN = (PODS, NODES, NODECLAIMS, NODEPOOLS)


@pytest.fixture(scope="module")
def prediction(tmp_path_factory: pytest.TempPathFactory) -> shadow.Prediction:
    """Three minutes of a load that comes and goes."""
    return shadow.predict(Console(stderr=True), SECONDS, shadow.types(), tmp_path_factory.mktemp("shadow"))


def test_it_only_reads(prediction: shadow.Prediction) -> None:
    assert set(prediction.requests) <= shadow.READS, prediction.requests
    assert prediction.requests["watch"] > 0


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
        file = shadow.reader(sandbox)
        with_rights = await Kube.connect(str(file))
        monkeypatch.setenv("KUBECONFIG", str(sandbox.kubeconfig))
        administrator = await read_only_client()
        try:
            for client, error in ((with_rights, ForbiddenError), (administrator, StandingByError)):
                assert await client.list(NODES) == []
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
