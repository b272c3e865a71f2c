"""What OpenTelemetry's own variables ask for, and which of them the worker refuses.

Only OTLP over HTTP is supported: gRPC needs grpcio, which takes 9 MB in each process of a worker, and every collector
receives HTTP too. Without a check, the exporter would send HTTP to the collector's gRPC port, and every span would be
lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from worker.settings.record_sinks import OTLP, parse_record_sinks

ENDPOINT, PROTOCOL = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"
TRACES_ENDPOINT, TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
LOGS_ENDPOINT, LOGS_PROTOCOL = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL"
SUPPORTED = "http/protobuf"


def asks_for_traces(environment: Mapping[str, str]) -> bool:
    """Whether the environment sets an endpoint for spans, and does not switch them off."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environment.get(name) for name in (ENDPOINT, TRACES_ENDPOINT))


def refused_protocols(environment: Mapping[str, str], record_sinks: str) -> list[str]:
    """Return a sentence for each protocol that traces or the record would use and that is not supported.

    ``record_sinks``: the setting RECORD_SINKS, which is valid.
    """
    used = []
    if asks_for_traces(environment):
        used.append((TRACES_PROTOCOL, TRACES_ENDPOINT))
    if any(sink.kind == OTLP for sink in parse_record_sinks(record_sinks)):
        used.append((LOGS_PROTOCOL, LOGS_ENDPOINT))
    refused = {}
    for name, endpoint in used:
        variable = name if environment.get(name) else PROTOCOL
        protocol = environment.get(variable, "")
        if protocol not in ("", SUPPORTED):
            where = endpoint if environment.get(endpoint) else ENDPOINT
            refused[variable] = (
                f"{variable}={protocol[:50]!r} is not supported, because Tenon sends OTLP over HTTP with protobuf "
                f"only: set it to {SUPPORTED}, and {where} to the collector's HTTP port, usually 4318."
            )
    return list(refused.values())
