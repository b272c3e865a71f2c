"""What `tenon doctor` checks: settings, Temporal, Kubernetes and AWS, each in a module of its own."""
