"""The sandbox's AWS: moto with corrections, and what moto lacks. `server` runs it, `client` steers it from tests."""
