"""Bounds on what the local engines hold in memory at once: kept to by them, and read by the estimate."""

MICRO_BATCH_TOKENS = 16_384
"""Tokens computed on with gradients, where the config says nothing."""
COPIED_TOKEN = 0.1
"""Memory of one prompt token's copied keys and values, in tokens computed with gradients."""
CACHE_BYTES = 2**30
"""Keys and values of the answers that a warm-up writes."""
LOGITS_AT_ONCE = 2**25
"""Logits of a chunk of an update: 128 MB in float32."""
SAMPLED_LOGITS = 2**26
"""Rows × vocabulary of one forward pass while sampling: 256 MB in float32."""
