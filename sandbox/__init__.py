"""A real control plane on one machine: Temporal, Kubernetes, KWOK nodes and an EC2 that behaves like EC2."""
