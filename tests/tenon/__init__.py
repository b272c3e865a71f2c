"""Tests of what Tenon decides, in the rooms of the package tenon."""
