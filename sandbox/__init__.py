"""A real control plane on one machine: Temporal, Kubernetes, KWOK nodes, and a mock of EC2 that behaves like EC2."""
