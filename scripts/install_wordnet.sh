#!/usr/bin/env bash
# Find WordNet, or install it into this Python environment: NLTK's download first, then Debian's package.
set -euo pipefail
python=${PYTHON:-python}

found() {
  "$python" - <<'PY'
import sys
from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.wordnet import find_wordnet
try:
    print("WordNet:", find_wordnet())
except LexiconError:
    sys.exit(1)
PY
}
if found; then exit 0; fi

echo "trying Debian's package wordnet-base"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
cd "$scratch"
if command -v apt-get >/dev/null; then
  apt-get download -q wordnet-base || { sudo=; [ "$(id -u)" = 0 ] || sudo=sudo; $sudo apt-get update -q && apt-get download -q wordnet-base; } || true
fi
if ls wordnet-base*.deb >/dev/null 2>&1; then
  dpkg-deb -x wordnet-base*.deb .
  target=$("$python" -c 'import sys; print(sys.prefix)')/share
  mkdir -p "$target"
  rm -rf "$target/wordnet"
  mv usr/share/wordnet "$target/wordnet"
fi
cd - >/dev/null
found || {
  echo "no WordNet. Run one of: python -m nltk.downloader wordnet; apt-get install wordnet-base" >&2
  exit 1
}
