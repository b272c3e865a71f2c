"""What Tenon knows about EC2, one package for each question. Nothing here calls AWS: `activities.ec2` does."""
