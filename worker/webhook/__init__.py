"""The conversion webhook: by it the API server serves v1beta1 beside v1, which alone is stored."""
