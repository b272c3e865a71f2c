"""Judges the calls of the sandbox's AWS as IAM does: by the policy of the caller's role."""
