"""What a release has: the wheel, the charts, and one version for all."""
