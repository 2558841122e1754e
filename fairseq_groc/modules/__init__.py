"""Arithmetic that knows no word, in plain modules with flat arguments; nothing here needs fairseq."""
