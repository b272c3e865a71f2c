"""What only the replica that holds the Lease runs: controllers, planning, and what these announce."""
