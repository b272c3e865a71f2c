"""Rollouts of new versions as people read and steer them."""
