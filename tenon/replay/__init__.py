"""Past disruption decisions: what they were made from, as documents that are kept, and how today's decisions differ."""
