"""Controllers of what nodes are bought for: buffers, overlays, static NodePools."""
