"""The processes of a worker, and what they need to run: health, logs, Temporal, the Lease."""
