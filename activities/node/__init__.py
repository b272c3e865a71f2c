"""The steps of a node's life: launch, register, initialize, bind pods, cordon, drain, terminate, release."""
