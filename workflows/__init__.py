"""REMEMBER: Temporal workflows. They wait, ask `tenon` what to do, and run activities; they decide nothing."""
