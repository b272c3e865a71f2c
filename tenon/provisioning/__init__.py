"""Converts NodePools for the scheduling engine, and the engine's plan into NodeClaims."""
