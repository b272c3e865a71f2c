"""The sweep that finds what was lost between Kubernetes, EC2 and Temporal, and ends or heals it."""
