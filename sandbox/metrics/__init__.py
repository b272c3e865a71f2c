"""Takes the place of metrics-server: reports how much CPU and memory pods use, for HorizontalPodAutoscalers and
`kubectl top`. Nothing runs in the sandbox's pods, so their usage is set by an annotation.
"""

from __future__ import annotations

COMPONENT = "metrics"
MODULE = "sandbox.metrics.server"
GROUP_VERSION = "metrics.k8s.io/v1beta1"
API_SERVICE = "v1beta1.metrics.k8s.io"
SERVICE, SERVICE_NAMESPACE = "metrics", "kube-system"
SERVICE_NAME = f"{SERVICE}.{SERVICE_NAMESPACE}.svc"
"""The name that the API server expects in the certificate."""
LOAD = "sandbox.tenon.sh/load"
"""Annotation on a Deployment: the usage of its pods, in the form of `usage.parse_load`."""
