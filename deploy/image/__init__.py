"""Builds the image of Tenon from Debian's packages and locked wheels: no registry, no daemon, no base image.

`make image` runs ``python -m deploy.image build/image``. mmdebstrap fetches Debian's packages with apt's checks of
signatures, and umoci writes the OCI image: both are Debian packages, and neither needs a daemon or a registry.
"""
