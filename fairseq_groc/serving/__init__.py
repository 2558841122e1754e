"""A trained model in a program: scores without a command line, from many threads, with a vocabulary for each call."""
