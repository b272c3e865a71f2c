"""The processes that users run: runtime, cluster cache, controllers, settings and webhook."""
