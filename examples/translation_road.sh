#!/usr/bin/env bash
# The whole road of translation: corpus -> training -> average of checkpoints -> export ->
# translations of a file -> answers over HTTP.
#
#   translation_road.sh DIRECTORY [TRAIN.tsv VALID.tsv TEST.tsv]
#
# The corpus is three TSV files, `source<TAB>target` on each line. Without them it is the bundled one
# of numbers and dates, English to German, on which the road takes some minutes on two cores.
#
# Settings by environment: EXPERIMENT, STEPS, NUM_AVERAGED (checkpoints), BEAM_SIZE, NUM_LINES (to
# translate), PORT, and in TRAIN_SET overrides `a.b=1,c=2` of the config.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: translation_road.sh DIRECTORY [TRAIN.tsv VALID.tsv TEST.tsv]}
mkdir -p "$directory"

if [ $# -eq 4 ]; then
  train=$2 valid=$3 test=$4
else
  train=$directory/train.tsv valid=$directory/valid.tsv test=$directory/test.tsv
  for part in train:"$train" validation:"$valid" test:"$test"; do
    python -c "
import sys
from quintain.nlp.data.corpora import bundled_corpora
for pair in bundled_corpora.get_pairs('numbers_and_dates/${part%%:*}'):
    print(*pair, sep='\t')
" > "${part#*:}"
  done
fi

quintain train --experiment="${EXPERIMENT:-translation/local}" --model-dir="$directory/run" \
  --set task.train_data.input_path="$train" --set task.validation_data.input_path="$valid" \
  --quiet ${STEPS:+--set "trainer.train_steps=$STEPS"} \
  ${TRAIN_SET:+--params_override="$TRAIN_SET"}

quintain checkpoint average --model-dir="$directory/run" --last="${NUM_AVERAGED:-3}"
quintain train --mode=eval --model-dir="$directory/run/averaged" --quiet \
  --set task.validation_data.input_path="$test"

quintain export --model-dir="$directory/run/averaged" --output="$directory/export" --overwrite \
  --beam-size="${BEAM_SIZE:-4}"

head -n "${NUM_LINES:-20}" "$test" | cut -f 1 > "$directory/source.txt"
quintain translate --model-dir="$directory/export" < "$directory/source.txt" \
  > "$directory/translation.txt"
paste "$directory/source.txt" "$directory/translation.txt"

"$here/serve_and_ask.sh" "$directory/export" '"the third of May"' '"twenty-one"' \
  | tee "$directory/answer.txt"
