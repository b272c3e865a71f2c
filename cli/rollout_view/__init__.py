"""What `tenon rollout` reads, asks for and prints: rollouts of new versions as people read and steer them."""
