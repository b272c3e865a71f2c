"""Controllers of EC2NodeClasses."""
