"""What EC2 says about running instances."""
