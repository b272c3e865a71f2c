"""Reads, checks, converts and writes manifest files, and maps each finding to its line."""
