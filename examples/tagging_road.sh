#!/usr/bin/env bash
# The whole road of tagging: sentences in columns -> records -> training -> scores -> export ->
# entities of a text -> answers over HTTP.
#
#   tagging_road.sh DIRECTORY [CORPUS]
#
# CORPUS holds train.tsv.gz, validation.tsv.gz and test.tsv.gz with a word and its label a line, an
# empty line after each sentence, and vocabulary.txt; none takes the sentences of the package.
#
# Settings by environment: TRAIN_STEPS, PORT, and in SET overrides `a.b=1,c=2` of the config.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: tagging_road.sh DIRECTORY [CORPUS]}
corpus=${2:-bundled:names_and_places}
train_steps=${TRAIN_STEPS:-600}
mkdir -p "$directory"

for split in train validation test; do
  quintain data tagging --input="$corpus/$split.tsv.gz" --vocab-file="$corpus/vocabulary.txt" \
    --nolower-case --seq-length=64 --output="$directory/$split.tfrecord" \
    ${labels:+--labels="$labels"} | tee "$directory/$split.log"
  # The labels of the training hold for the other files.
  labels=${labels:-$(sed -n 's/.*class_names=\[\(.*\)\]/\1/p' "$directory/$split.log")}
done

quintain train --experiment=tagging/local --model-dir="$directory/tagger" --quiet \
  --params_override="${SET:+$SET,}task.class_names=[$labels],\
task.train_data.vocab_file=$corpus/vocabulary.txt,trainer.train_steps=$train_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$train_steps,\
task.train_data.input_path=$directory/train.tfrecord,\
task.validation_data.input_path=$directory/validation.tfrecord"

# Scores of names that were never seen.
quintain train --mode=eval --model-dir="$directory/tagger" --quiet \
  --set task.validation_data.input_path="$directory/test.tfrecord"
tail -n 1 "$directory/tagger/evaluations.jsonl"

quintain export --model-dir="$directory/tagger" --output="$directory/export" --overwrite
echo "On Tuesday Mila Orvinson moved from Old Brelstad to Kremberg." |
  quintain predict --model-dir="$directory/export"

"$here/serve_and_ask.sh" "$directory/export" '"Grustin Lomen was born in Tarnville on 3 May 1921."' \
  | tee "$directory/answer.txt"
