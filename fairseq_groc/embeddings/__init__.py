"""Word embeddings: from the words of a vocabulary to E_in, and how a training step computes them."""
