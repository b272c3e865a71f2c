"""The record: one entry for each plan, command, launch, refusal and removal, which outlives nodes and workflows.

`entries` says what an entry holds, and `lines` how entries become lines of JSON and back. The other modules make
entries of what happened.
"""
