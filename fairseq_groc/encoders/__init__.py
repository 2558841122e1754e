"""Prefix encoders: from the embeddings of what was read to h."""
