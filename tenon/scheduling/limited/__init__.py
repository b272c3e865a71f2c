"""Packs nodes where the limits of NodePools may bind, so that not every pod may get a place."""
