"""Installs Tenon on the real node by its chart, with the values that the sandbox's addresses need and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sandbox import helm
from sandbox.ec2.authorization import identities
from sandbox.ec2.region import REGION
from sandbox.kubectl import apply, kubectl
from sandbox.kubelet import ADDRESS, AWS_PORT, ROLE, TEMPORAL_PORT, images
from sandbox.layout import CLUSTER_NAME, NAMESPACE, Layout

CHART = Path(__file__).parents[2] / "deploy" / "chart"
IMAGE = Path(__file__).parents[2] / "build" / "image" / "tenon.tar"
"""Where `make image` writes the image."""
RELEASE = "tenon"
READY_SECONDS = 240


def install(
    layout: Layout, kubernetes: str, archive: Path = IMAGE, extra: dict[str, Any] | None = None, chart: Path = CHART
) -> str:
    """Import the image, install or upgrade the chart, and wait for its pods. Returns what Helm printed.

    ``kubernetes`` is the API server's address for nodes. ``extra`` are more values for the chart, over the sandbox's.

    Raises:
        OSError: the node does not run or did not take the image.
        ValueError: the archive has no image.
        HelmError: Helm did not install the chart, or its pods did not become ready.
        KubectlError: the namespace could not be created, or not all pods became ready.
    """
    value = values(images.name_in(archive), kubernetes)
    images.load(layout, archive)
    apply(layout.kubeconfig, namespace())
    files = [layout.node / "values.json"]
    files[0].write_text(json.dumps(value))
    if extra:
        files.append(layout.node / "more-values.json")
        files[1].write_text(json.dumps(extra))
    install = helm.install(chart, RELEASE, NAMESPACE, layout.kubeconfig, values=files, timeout=READY_SECONDS)
    _all_ready(layout)
    return install


def rollback(layout: Layout) -> str:
    """Go back to the revision before this one, and wait for its pods. Returns what Helm printed.

    Raises:
        HelmError: Helm did not roll back, or its pods did not become ready.
        KubectlError: not all pods became ready.
    """
    rollback = helm.rollback(RELEASE, NAMESPACE, layout.kubeconfig, timeout=READY_SECONDS)
    _all_ready(layout)
    return rollback


def _all_ready(layout: Layout) -> None:
    """Wait for all replicas. Helm is content with all but those that may be unavailable."""
    rollout = ("rollout", "status", f"deployment/{RELEASE}", f"--namespace={NAMESPACE}", f"--timeout={READY_SECONDS}s")
    kubectl(layout.kubeconfig, *rollout, timeout=READY_SECONDS + 10)


def namespace() -> dict[str, Any]:
    """The namespace of the release: only pods that the strictest standard allows may run there."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def values(image: str, kubernetes: str) -> dict[str, Any]:
    """The values for a worker in the sandbox. All replicas run on the one real node."""
    repository, _, tag = image.rpartition(":")
    environment = {
        "AWS_ENDPOINT_URL": f"http://{ADDRESS}:{AWS_PORT}",
        **identities.environment(identities.worker_key(CLUSTER_NAME)),
    }
    return {
        "controller": {
            # The charts of a release name a digest, and containerd knows an imported image only by its name.
            "image": {"repository": repository, "tag": tag, "digest": ""},
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        },
        "nodeSelector": {"sandbox.tenon.sh/role": ROLE},
        "affinity": {"podAntiAffinity": None},
        "temporal": {"address": f"{ADDRESS}:{TEMPORAL_PORT}", "namespace": "default"},
        "aws": {"region": REGION},
        "settings": {"clusterName": CLUSTER_NAME, "clusterEndpoint": kubernetes},
    }
