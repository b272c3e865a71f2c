"""What NodePools can launch: instance types and their prices, within limits, and with what is already paid for."""
