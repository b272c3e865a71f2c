"""The worker's processes, and the services that they need: health, logs, Temporal, the Lease."""
