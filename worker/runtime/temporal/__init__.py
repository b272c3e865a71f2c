"""The worker as a client of Temporal: connection, plugin, payloads, interceptors, schedules, versions."""
