"""The request that launches an instance, and what the instance bears afterwards."""
