#!/usr/bin/env bash
# Raw text to a fairseq data folder with lexicon tables: python -m fairseq_groc preprocess by its old name. See --help.
# PYTHONSAFEPATH: from the current folder, which may be somebody else's with the text, Python 3.11 imports nothing.
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
export PYTHONSAFEPATH=1 PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python}" -m fairseq_groc preprocess "$@"
