#!/usr/bin/env bash
# The road of retrieval: pairs of texts -> vectors -> recall -> export -> the nearest texts of a file
# -> vectors over HTTP.
#
#   dual_encoder_road.sh DIRECTORY [TRAIN VALIDATION CANDIDATES]
#
# TRAIN and VALIDATION are TSV files with a header line and the columns left_input and right_input, or
# JSON Lines with these keys; CANDIDATES is a file with a text a line, of which those nearest to the
# lines of standard input are printed. Without them it learns to find German numbers and dates by
# English ones, from the corpus that is bundled with the package. Settings by environment: STEPS,
# TRAIN_SET (overrides `a.b=1,c=2`), PORT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: dual_encoder_road.sh DIRECTORY [TRAIN VALIDATION CANDIDATES]}
steps=${STEPS:-400}
candidates=${4:-$directory/candidates.txt}
vocabulary=$directory/vocabulary.model
mkdir -p "$directory"
data=''
if [ $# -eq 1 ]; then
  corpora=$(python -c 'import quintain.nlp.data.corpora as c; print(*c.__path__)')
  gzip -dc "$corpora/numbers_and_dates/test.tsv.gz" | cut -f 2 > "$candidates"
else
  cut -f 1- "$2" > "$directory/text.txt"
  quintain data sentencepiece --input="$directory/text.txt" --output="$vocabulary" \
    --vocab-size=600 --control-symbols='[CLS],[SEP],[MASK]'
  data="task.train_data.input_path=$2,task.validation_data.input_path=$3,"
  data+="task.train_data.vocab_file=$vocabulary,task.validation_data.vocab_file=$vocabulary,"
fi

quintain train --experiment=dual_encoder/local --model-dir="$directory/run" --quiet \
  --params_override="${TRAIN_SET:+$TRAIN_SET,}${data}trainer.train_steps=$steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$steps"
tail -n 1 "$directory/run/evaluations.jsonl"

quintain export --model-dir="$directory/run" --output="$directory/export" --overwrite

if [ -t 0 ] || [ $# -eq 1 ]; then
  printf '%s\n' 'the third of May' 'half past seven' 'nineteen kilometres'
else
  cat
fi | quintain predict --model-dir="$directory/export" --candidates="$candidates" --top=3 \
  | tee "$directory/nearest.tsv"

"$here/serve_and_ask.sh" "$directory/export" '"the third of May"' | tee "$directory/answer.txt"
