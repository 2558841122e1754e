"""From binarised text to batches: streams, blocks, carried states."""
