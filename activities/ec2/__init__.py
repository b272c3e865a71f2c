"""The clients of AWS. Activities use EC2 through `provider`; the other modules send, combine, limit or cache calls."""
