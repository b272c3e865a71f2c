"""What `tenon cost` reads, and how it looks."""
