"""The mathematics, in plain modules with flat arguments; nothing here needs fairseq."""
