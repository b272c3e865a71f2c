"""The parts of ``tenon shadow``: what it watches, its state on disk, and how it shows the report."""
