"""What the parent of a worker and its two child processes agree on."""

EXIT_UNUSABLE = 2
"""Exit status of a process that cannot work with its settings or its environment. The process has reported why."""
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the Prometheus client: the private folder that all processes of a worker share."""
