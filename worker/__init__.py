"""The processes that users run: settings, clients, cluster cache, bridge, telemetry, and the assembly of the rest."""
