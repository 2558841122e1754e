#!/usr/bin/env bash
# Raw text to a fairseq data folder with lexicon tables. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: preprocess.sh --dest DIR [--train FILE] [--valid FILE]... [--test FILE]... [options]
       preprocess.sh --dest DIR --dataset NAME [--from FOLDER] [--splits LIST] [options]

  --train FILE            training text; its words, by falling count, are the vocabulary
  --valid FILE            may be repeated: valid, valid1, ...
  --test FILE             may be repeated: test, test1, ...
  --threshold N           leave out of the vocabulary the words seen less than N times in the training text
  --vocabulary-from DIR   union vocabulary: that folder's dictionary first, then the new words of these texts
  --vocabulary FILE       use this dict.txt as it is
  --new-words-from FILE   append the words of another text to the vocabulary; may be repeated
  --tokenize LANG         tokenise with sacremoses
  --lower                 lower-case
  --lexicon-path PATH     a .tsv or .jsonl lexicon, a WordNet folder, or 'none' (default: this machine's WordNet)
  --keep-entries SHARE    drop the lexicon's relations, and its definitions, of all but a share of the words
  --forms-from DICT       drop the lexicon's related and gloss words that this dict.txt has not
  --max-relations N       related words of a word at most (default 3)
  --max-definition N      words of its gloss at most (default 10)
  --dataset NAME          ptb or wikitext-2: train.txt, valid.txt, test.txt of --from FOLDER, else downloaded;
                          news-2007 to news-2011, web or wiki, GroC's cross-domain set: the published file in
                          --from FOLDER, else downloaded; tokenised and lower-cased (docs/cross_domain.md)
  --splits LIST           those of the dataset to take (default train,valid,test)
  --tokens N,N,N          of the cross-domain set's train, valid, test (default 2000000,2000000,10000000)
  --workers N             for fairseq-preprocess (default 1)
TEXT
}
die() { echo "preprocess.sh: $*" >&2; exit 1; }

python=${PYTHON:-python}
dest='' train='' dataset='' from='' vocabulary='' vocabulary_from='' threshold='' workers=1 chosen=train,valid,test tokens=''
valid=() test=() text_options=() lexicon=() extra=()
while [ $# -gt 0 ]; do
  case $1 in --help | -h) usage; exit 0 ;; --lower) text_options+=(--lower); shift; continue ;; esac
  [ $# -ge 2 ] || die "$1 wants a value (or is no option: see --help)"
  case $1 in
    --dest) dest=$2 ;;
    --train) train=$2 ;;
    --valid) valid+=("$2") ;;
    --test) test+=("$2") ;;
    --threshold) threshold=$2 ;;
    --vocabulary) vocabulary=$2 ;;
    --vocabulary-from) vocabulary_from=$2 ;;
    --new-words-from) extra+=("$2") ;;
    --tokenize) text_options+=(--tokenize "$2") ;;
    --lexicon-path | --keep-entries | --forms-from | --max-relations | --max-definition) lexicon+=("$1" "$2") ;;
    --dataset) dataset=$2 ;;
    --from) from=$2 ;;
    --splits) chosen=$2 ;;
    --tokens) tokens=$2 ;;
    --workers) workers=$2 ;;
    *) die "unknown option $1: see --help" ;;
  esac
  shift 2
done
[ -n "$dest" ] || die "give --dest DIR (see --help)"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

wanted='train.txt, valid.txt and test.txt' # in --from FOLDER
fetch() { # URL FILE
  echo "downloading $1" >&2
  local shown=--silent; [ ! -t 2 ] || shown=--progress-bar
  curl -fSL "$shown" --connect-timeout 20 --user-agent Mozilla/5.0 "$1" -o "$2" ||
    die "cannot download $1. Put $wanted in a folder and give --from FOLDER."
}
download() { # into $scratch/raw
  mkdir -p "$scratch/raw"
  case $dataset in
    ptb)
      fetch http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz "$scratch/ptb.tgz"
      tar -xzf "$scratch/ptb.tgz" -C "$scratch"
      for split in train valid test; do find "$scratch" -name "ptb.$split.txt" -exec mv {} "$scratch/raw/$split.txt" \; ; done ;;
    wikitext-2)
      fetch https://wikitext.smerity.com/wikitext-2-v1.zip "$scratch/wiki.zip"
      "$python" -m zipfile -e "$scratch/wiki.zip" "$scratch"
      for split in train valid test; do mv "$scratch/wikitext-2/wiki.$split.tokens" "$scratch/raw/$split.txt"; done ;;
    *) fetch "$url" "$scratch/raw/$wanted" ;;
  esac
}
url='' # of a source of the cross-domain set
if [ -n "$dataset" ]; then
  case $dataset in
    ptb | wikitext-2) ;;
    news-200[789] | news-201[01])
      url=https://www.statmt.org/wmt14/training-monolingual-news-crawl/news.${dataset#news-}.en.shuffled.gz ;;
    web) url=https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz ;;
    wiki) url=https://wikitext.smerity.com/wikitext-103-v1.zip ;;
    *) die "--dataset $dataset: expected ptb or wikitext-2, or news-2007 to news-2011, web or wiki" ;;
  esac
  texts=${from:-$scratch/raw} train='' valid=() test=()
  if [ -n "$url" ]; then
    texts=$scratch/slices wanted=${url##*/}
    [ ${#text_options[@]} -eq 0 ] || die "$dataset is tokenised and lower-cased already: leave out --tokenize and --lower"
  fi
  for split in ${chosen//,/ }; do
    case $split in
      train) train=$texts/train.txt ;;
      valid) valid=("$texts/valid.txt") ;;
      test) test=("$texts/test.txt") ;;
      *) die "--splits $chosen: expected some of train,valid,test" ;;
    esac
  done
fi
[ -n "$dataset" ] || [ "$chosen$from" = train,valid,test ] || die "--from and --splits go with --dataset"
[ -z "$tokens" ] || [ -n "$url" ] || die "--tokens goes with --dataset news-2007 to news-2011, web and wiki"
[[ ${tokens:-1,1,1} =~ ^[1-9][0-9]*,[1-9][0-9]*,[1-9][0-9]*$ ]] ||
  die "--tokens $tokens: expected those of train, valid and test, as in 2000000,2000000,10000000"

[ -n "$train" ] || [ -n "$vocabulary$vocabulary_from" ] || die "without --train, give --vocabulary FILE or --vocabulary-from DIR"
[ -n "$train" ] || [ ${#valid[@]} -gt 0 ] || [ ${#test[@]} -gt 0 ] || die "no text given: --train, --valid or --test"

[ -z "$vocabulary" ] || [ -z "$vocabulary_from" ] || die "--vocabulary and --vocabulary-from: give one"
[ -z "$threshold" ] || [ -z "$vocabulary$vocabulary_from" ] || die "--threshold has no meaning where a vocabulary is given"
[ -z "$vocabulary" ] || [ ${#extra[@]} -eq 0 ] || die "--new-words-from would change --vocabulary FILE: give --vocabulary-from DIR"

# what can be refused was: from here on it takes long
if [ -n "$dataset" ] && [ -z "$from" ]; then download; from=$scratch/raw; fi
[ -z "$url" ] || "$python" -m fairseq_groc prepare slice "$dataset" "$from" "$scratch/slices" ${tokens:+--tokens "$tokens"}

splits=() files=() raw=()
add() { # split file
  splits+=("$1") files+=("$1=$scratch/$1") raw+=("$scratch/$1=$2")
}
[ -z "$train" ] || add train "$train"
i=0; for f in ${valid[@]+"${valid[@]}"}; do n=$((i)); [ $i -gt 0 ] || n=; add "valid$n" "$f"; i=$((i + 1)); done
i=0; for f in ${test[@]+"${test[@]}"}; do n=$((i)); [ $i -gt 0 ] || n=; add "test$n" "$f"; i=$((i + 1)); done
added=() n=0
if [ -n "$vocabulary_from" ]; then for s in "${splits[@]}"; do added+=("$scratch/$s"); done; fi
for f in ${extra[@]+"${extra[@]}"}; do n=$((n + 1)); raw+=("$scratch/extra$n=$f") added+=("$scratch/extra$n"); done
dictionary=$scratch/dict.txt words=()
if [ -n "$vocabulary" ]; then
  [ -f "$vocabulary" ] || die "--vocabulary $vocabulary: no such file"
  cp "$vocabulary" "$dictionary"
elif [ -n "$vocabulary_from" ]; then
  words=(--dictionary "$dictionary" --vocabulary-from "$vocabulary_from" --add ${added[@]+"${added[@]}"})
else
  words=(--dictionary "$dictionary" --train "$scratch/train" --threshold "${threshold:-1}" --add ${added[@]+"${added[@]}"})
fi
# all texts are checked and tokenised first, so that nothing is written for bad input
"$python" -m fairseq_groc prepare text "${raw[@]}" ${text_options[@]+"${text_options[@]}"} ${words[@]+"${words[@]}"}

list() { local out=; for s in "${splits[@]}"; do case $s in "$1"*) out=$out,$scratch/$s ;; esac; done; echo "${out#,}"; }
prefixes=()
[ -z "$train" ] || prefixes+=(--trainpref "$scratch/train")
[ -z "$(list valid)" ] || prefixes+=(--validpref "$(list valid)")
[ -z "$(list test)" ] || prefixes+=(--testpref "$(list test)")
made=$scratch/made # all of it, before anything in $dest changes
"$python" -m fairseq_cli.preprocess --only-source --srcdict "$dictionary" "${prefixes[@]}" --destdir "$made" --workers "$workers" >&2
known=(); [ -z "$vocabulary_from" ] || known=(--known "$vocabulary_from")
"$python" -m fairseq_groc prepare tables "$made" ${lexicon[@]+"${lexicon[@]}"} ${known[@]+"${known[@]}"} --texts "${files[@]}"

mkdir -p "$dest"
# those of another dictionary must not stay; binarised.json says that all is there, so it goes first and comes last
for old in "$dest"/{binarised.json,lexicon-tables} "$dest"/{train,valid*,test*}.{bin,idx}; do rm -rf "$old"; done
mv "$made/binarised.json" "$scratch/"
mv -f "$made"/* "$dest"/
mv "$scratch/binarised.json" "$dest"/
