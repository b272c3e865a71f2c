"""What was lost between Kubernetes, EC2 and Temporal, and what becomes of it."""
