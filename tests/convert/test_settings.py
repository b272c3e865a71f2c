"""What takes the place of the ConfigMaps of settings fits the worker and its chart (LEG-50, LEG-51)."""

from __future__ import annotations

from pathlib import Path

import yaml

from tenon.apis.legacy.global_settings import RENAMED
from tenon.manifests.converting import CHART, settings_block
from tenon.manifests.documents import items, read


def test_every_setting_is_a_value_of_the_chart() -> None:
    values = yaml.safe_load(Path("deploy/chart/values.yaml").read_text())
    assert set(RENAMED.values()) <= set(CHART)
    for path in CHART.values():
        section, _, name = path.rpartition(".")
        assert name in (values[section] if section else values)


def test_the_comment_can_be_pasted_into_the_values() -> None:
    data = {
        "aws.isolatedVPC": "true",
        "aws.reservedENIs": "1",
        "aws.vmMemoryOverheadPercent": "0.1",
        "aws.clusterName": "1",
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "karpenter-global-settings"}, "data": data}
    (document,), _ = read("in.yaml", yaml.safe_dump(body))
    (item,) = items(document, [])
    text, _ = settings_block(item)
    pasted = text.partition("# or, in the values of the chart:\n")[2].replace("# ", "")
    assert yaml.safe_load(pasted) == {
        "settings": {"isolatedVPC": True, "reservedENIs": 1, "vmMemoryOverheadPercent": 0.1, "clusterName": "1"}
    }
