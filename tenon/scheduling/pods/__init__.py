"""What pods require of their nodes: their classes, the rules between them, their preferences and their volumes."""
