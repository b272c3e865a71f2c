"""What the processes tell about themselves: log lines, traces, profiles, and metrics as text."""
