"""What the account has committed itself to pay for: Reserved Instances and Savings Plans."""
