"""Input and output of ``tenon simulate``: files, the cluster and the terminal."""
