"""The garbage collection sweep. It finds inconsistencies between Kubernetes, EC2 and Temporal, and repairs them."""
