"""The cluster as one process sees it: watches, slim records and the views that planning needs."""
