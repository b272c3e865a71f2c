"""The steps of an EC2NodeClass."""
