"""What Tenon records as OpenTelemetry spans: one trace for each operation.

Nothing here loads OpenTelemetry unless it is enabled, because it takes about 10 MiB in each process of a worker.
"""
