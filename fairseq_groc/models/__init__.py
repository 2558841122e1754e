"""Registered architectures, and what joins encoder, word embedding, head and adapter in them."""
