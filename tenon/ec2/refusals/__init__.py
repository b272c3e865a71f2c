"""What EC2 refuses: how large the refusal is, and what it costs."""
