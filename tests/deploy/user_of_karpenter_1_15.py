"""The files of a user of Karpenter 1.15: values, environment and manifests, as they are there (N15-641)."""

from __future__ import annotations

from pathlib import Path

import yaml

_FOLDER = Path(__file__).parent / "karpenter_1_15"
VALUES = _FOLDER / "values.yaml"


def environment() -> dict[str, str]:
    """The environment of the controller's container."""
    return {variable["name"]: variable["value"] for variable in yaml.safe_load((_FOLDER / "env.yaml").read_text())}


def manifests(cluster_name: str) -> str:
    """The manifests: an EC2NodeClass, a NodePool and a Deployment named ``orders``."""
    return (_FOLDER / "manifests.yaml").read_text().replace("CLUSTER", cluster_name)
