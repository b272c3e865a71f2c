"""Planning on a live cluster: the activities that need the cluster cache. Only the cluster process serves them."""
