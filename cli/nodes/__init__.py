"""The commands of ``tenon node``: which nodes they are about, what Temporal and Kubernetes say, and what is asked."""
