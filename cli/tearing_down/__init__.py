"""What ``tenon teardown`` does: a worker for the teardown, its workflow, and what it shows before it asks."""
