"""From raw text to batches: data folders and their lexicon tables, streams, blocks."""
