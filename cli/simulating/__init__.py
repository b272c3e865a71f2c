"""The parts of ``tenon simulate`` that touch the world: files, the cluster, the terminal."""
