"""One real node: a kubelet with containerd and runc, in namespaces of its own, so that real pods run in the sandbox.

`node` is the component that the supervisor starts. It creates the namespaces (`namespaces`), in which `inside` is PID 1
and starts containerd and the kubelet. Nothing on the machine changes: mounts, addresses, processes and host name are
those of the namespaces, and they end with PID 1. Only cgroups are outside (`cgroups`), and the component removes them.

The sandbox listens on 127.0.0.1 of the machine, which is not that of the namespaces. So the component forwards
connections (`forwarders`): from the node to the API server, Temporal and AWS, and from the API server to the node and
its pods. Nothing in the node can reach any other address.
"""

from __future__ import annotations

COMPONENT = "kubelet"
MODULE = "sandbox.kubelet.node"
NODE = "real-0"
ROLE = "real"
"""The value of the label `sandbox.tenon.sh/role`."""
ADDRESS = "10.250.0.1"
"""The node's address. Pods reach it."""
KUBELET_PORT = 10250
TEMPORAL_PORT = 7233
AWS_PORT = 5000
"""Where pods find Temporal and AWS, on the node's address."""
POD_CIDR = "10.251.0.0/24"
USER = f"system:node:{NODE}"
GROUP = "system:nodes"
"""Who the kubelet is for the API server's Node authorizer."""
