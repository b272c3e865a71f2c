"""What an EC2NodeClass finds in the account."""
