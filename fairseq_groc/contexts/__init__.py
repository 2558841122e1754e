"""What is known of a line besides its words: variables such as topic or year, and vectors of their values. Nothing of fairseq."""
