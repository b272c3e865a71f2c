"""The request that launches an instance, and what is written on the instance afterwards."""
