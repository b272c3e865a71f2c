"""What metrics-server is to a real cluster: how much CPU and memory pods use, for HorizontalPodAutoscalers and `kubectl
top`. Nothing runs in the sandbox's pods, so their use is what somebody said it is.
"""

from __future__ import annotations

COMPONENT = "metrics"
MODULE = "sandbox.metrics.server"
GROUP_VERSION = "metrics.k8s.io/v1beta1"
API_SERVICE = "v1beta1.metrics.k8s.io"
SERVICE, SERVICE_NAMESPACE = "metrics", "kube-system"
SERVICE_NAME = f"{SERVICE}.{SERVICE_NAMESPACE}.svc"
"""The name that the API server wants to read in the certificate."""
LOAD = "sandbox.tenon.sh/load"
"""On a Deployment: what its pods use, as `usage.parse_load` reads it."""
