"""Tests of what Tenon does, in the rooms of the package activities."""
