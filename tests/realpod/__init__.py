"""A real kubelet, and Tenon's image in real pods on it. `make realpod` runs these tests: they need root and Debian."""
