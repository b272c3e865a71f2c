"""User data that the first boot of a machine refuses, and what each family's nodes make of what the product writes."""

from __future__ import annotations

from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL

NOT_A_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: Nodeconfig\nspec: {}\n"
NOT_A_SETTING = "[settings.kubernetes]\nmax-podz = 3\n"


async def test_aws097_a_document_that_nodeadm_refuses_keeps_the_node_away(make_pool: MakePool) -> None:
    """The instance runs, never joins, and its console says why."""
    pool = await make_pool(requirements=SMALL, userData=NOT_A_CONFIG)
    await pool.deploy(1)
    assert 'nodeadm: no kind "Nodeconfig" is registered' in await pool.console()


async def test_aws098_a_setting_that_bottlerocket_does_not_have_keeps_the_node_away(make_pool: MakePool) -> None:
    pool = await make_pool(
        requirements=SMALL, amiSelectorTerms=[{"alias": "bottlerocket@latest"}], userData=NOT_A_SETTING
    )
    await pool.deploy(1)
    assert "unknown setting settings.kubernetes.max-podz" in await pool.console()


async def test_aws095_aws098_the_kubelets_of_both_families_use_what_the_class_says(make_pool: MakePool) -> None:
    """Reserves, pods and taints reach the node through the family's own reader, and a pod runs there."""
    kubelet = {
        "maxPods": 17,
        "systemReserved": {"cpu": "150m", "memory": "200Mi"},
        "evictionHard": {"memory.available": "3%"},
        "imageGCHighThresholdPercent": 80,
        "clusterDNS": ["10.96.0.53"],
    }
    for alias in ("al2023@latest", "bottlerocket@latest"):
        pool = await make_pool(requirements=SMALL, amiSelectorTerms=[{"alias": alias}], kubelet=kubelet)
        await pool.deploy(1)
        (pod,) = await pool.running(1)
        (node,) = [node for node in await pool.nodes() if node["metadata"]["name"] == pod["spec"]["nodeName"]]
        assert node["status"]["capacity"]["pods"] == "17"
        assert node["status"]["allocatable"]["cpu"] == "1780m"
        assert "10.96.0.53" in await pool.console()
