"""Tests of how rollouts are observed."""
