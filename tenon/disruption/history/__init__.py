"""What earlier disruption commands moved and saved."""
