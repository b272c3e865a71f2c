"""The API server's audit log: who sent which request. Metrics of the API server do not name the client.

It is off by default, because writing it costs the API server CPU time.
"""

from __future__ import annotations

from sandbox.layout import Layout

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""
WRITTEN_WITHIN = 1.0
"""Seconds after a response in which the log has it."""


def audit_flags(layout: Layout) -> tuple[str, ...]:
    """The API server's flags. Requests do not wait until the log is written."""
    return (
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=4096",  # megabytes: with the default of 100, an hour of churn is in two files
        "--audit-log-mode=batch",
        f"--audit-log-batch-max-wait={WRITTEN_WITHIN:g}s",
    )
