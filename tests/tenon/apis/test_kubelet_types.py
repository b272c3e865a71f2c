"""What an EC2NodeClass says about settings that the kubelet does not have, or cannot read."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.kubelet_fields import KUBERNETES
from tenon.apis.kubelet_types import settings_at
from tenon.apis.validation import parse
from tests.tenon.apis.case import EC2NODECLASS, edited

UNKNOWN = f"is not a setting of the kubelet of Kubernetes {KUBERNETES}: "


def said(**kubelet: Any) -> dict[str, str]:
    """The faults of a class with these settings, by their path below ``spec.kubelet``."""
    _, problems = parse(EC2NodeClass, edited(EC2NODECLASS, {"kubelet": kubelet}))
    return {problem.path.removeprefix("spec.kubelet."): problem.sentence for problem in problems}


@pytest.mark.parametrize(
    ("kubelet", "path", "sentence"),
    [
        ({"podPidLimit": 100}, "podPidLimit", f"{UNKNOWN}did you mean podPidsLimit?"),
        ({"PodPidsLimit": 100}, "PodPidsLimit", f"{UNKNOWN}did you mean podPidsLimit?"),
        ({"noSuchField": 3}, "noSuchField", f"{UNKNOWN}leave it out"),
        (
            {"authentication": {"webhook": {"cacheTtl": "5s"}}},
            "authentication.webhook.cacheTtl",
            f"{UNKNOWN}did you mean cacheTTL?",
        ),
        ({"podPidsLimit": "100"}, "podPidsLimit", "is not a whole number: write it without quotes"),
        ({"failSwapOn": "true"}, "failSwapOn", "is neither true nor false: write it without quotes"),
        ({"cpuManagerPolicy": True}, "cpuManagerPolicy", "is not a string: put it in quotes"),
        ({"allowedUnsafeSysctls": "kernel.*"}, "allowedUnsafeSysctls", "is not a list"),
        ({"memorySwap": "LimitedSwap"}, "memorySwap", "is not a mapping"),
        ({"registryBurst": 2**31}, "registryBurst", "must be less than or equal to 2147483647"),
        ({"maxPods": 2**31}, "maxPods", "must be less than or equal to 2147483647"),
        (
            {"shutdownGracePeriod": "30"},
            "shutdownGracePeriod",
            "'30' is not a duration: write numbers with ms, s, m or h, such as 1m30s",
        ),
        (
            {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gib"}}]},
            "reservedMemory[0].limits.memory",
            "'1Gib' is not a quantity: write a number with an optional suffix, such as 250m or 1Gi",
        ),
        (
            {"configMapAndSecretChangeDetectionStrategy": "Poll"},
            "configMapAndSecretChangeDetectionStrategy",
            "'Poll' is not one of 'Get', 'Cache', 'Watch'",
        ),
    ],
)
def test_n15_341_a_setting_is_checked_by_name_kind_and_bounds(
    kubelet: dict[str, Any], path: str, sentence: str
) -> None:
    assert said(**kubelet) == {path: sentence}


def test_n15_341_settings_of_every_kind_pass() -> None:
    assert (
        said(
            cpuManagerPolicy="static",
            podPidsLimit=4096,
            featureGates={"MemoryQoS": True},
            containerLogMaxSize="50Mi",
            memoryThrottlingFactor=1,
            shutdownGracePeriod="1m30s",
            logging={"flushFrequency": 5_000_000_000, "verbosity": 2, "format": "json"},
            reservedMemory=[{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-1Gi": 0}}],
            authorization={"mode": "Webhook"},
            topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "true"},
            singleProcessOOMKill=None,
        )
        == {}
    )


def test_n15_343_what_an_eviction_reclaims_is_a_share_or_an_amount_of_a_signal() -> None:
    assert said(evictionMinimumReclaim={"memory.available": "500Mi", "nodefs.available": "5.5%"}) == {}
    errors = said(evictionMinimumReclaim={"memory.available": "abc", "pid.available": "101%", "disk": "1Gi"})
    assert errors.keys() == {
        f"evictionMinimumReclaim[{name}]" for name in ("memory.available", "pid.available", "disk")
    }
    assert errors["evictionMinimumReclaim[disk]"].startswith("is not a signal: use one of memory.available, ")


def test_n15_341_all_faults_of_a_class_are_said_at_once() -> None:
    """Those that stop Tenon from reading the class, and those that only nodes would stumble on."""
    assert said(maxPods=-1, podPidLimit=100).keys() == {"maxPods", "podPidLimit"}


def test_n15_341_settings_that_nest_in_lists_and_maps_are_known() -> None:
    assert "limits" in settings_at(("reservedMemory", 3))
    assert settings_at(("featureGates",)) == settings_at(("noSuchField", "x")) == []
