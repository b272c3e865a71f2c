"""The cluster cache of one process: watches, slim records, and the views that planning and disruption need."""
