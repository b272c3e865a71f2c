"""What ``tenon simulate`` decides on: from manifests to a scheduling problem, and from a plan to its document."""
