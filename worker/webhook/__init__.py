"""The conversion webhook, which lets the API server serve v1beta1 in addition to v1. Only v1 is stored."""
