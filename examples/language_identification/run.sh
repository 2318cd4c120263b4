#!/usr/bin/env bash
# Which language is it? Makes a corpus of the messages of programs, and goes the whole road of BERT.
#
#   run.sh DIRECTORY [OPTION of make_corpus.py ...]
#
# Settings by environment: those of ../bert_road.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: run.sh DIRECTORY [OPTION of make_corpus.py ...]}
shift

python "$here/make_corpus.py" "$directory/corpus" "$@"
CONFIGS=$here "$here/../bert_road.sh" "$directory" "$directory/corpus"
