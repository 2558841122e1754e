#!/usr/bin/env bash
# Raw text to a fairseq data folder with lexicon tables: python -m fairseq_groc preprocess by its old name. See --help.
exec "${PYTHON:-python}" -m fairseq_groc preprocess "$@"
