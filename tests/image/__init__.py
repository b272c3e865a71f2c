"""The image that `make image` builds: the parts of the build, and the image itself in a container."""
