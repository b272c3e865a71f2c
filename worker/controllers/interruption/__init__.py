"""Controllers of what EC2 does to instances: interruptions, status checks, scheduled changes."""
