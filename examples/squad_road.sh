#!/usr/bin/env bash
# The whole road of question answering: questions on paragraphs -> records -> training -> scores ->
# export -> an answer in a text -> answers over HTTP.
#
#   squad_road.sh DIRECTORY [CORPUS]
#
# CORPUS holds train.json.gz, validation.json.gz and test.json.gz as SQuAD 2.0 has them, and
# vocabulary.txt; none takes the questions of the package.
#
# Settings by environment: TRAIN_STEPS, PORT, and in SET overrides `a.b=1,c=2` of the config.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: squad_road.sh DIRECTORY [CORPUS]}
corpus=${2:-bundled:questions}
train_steps=${TRAIN_STEPS:-1600}
mkdir -p "$directory"

quintain data squad --input="$corpus/train.json.gz" --vocab-file="$corpus/vocabulary.txt" \
  --nolower-case --version-2-with-negative --seq-length=72 --query-length=24 --doc-stride=24 \
  --output="$directory/train.tfrecord"

# Records train; an evaluation needs the words of JSON.
quintain train --experiment=question_answering/local --model-dir="$directory/run" --quiet \
  --params_override="${SET:+$SET,}\
task.train_data.vocab_file=$corpus/vocabulary.txt,task.train_data.input_path=$directory/train.tfrecord,\
task.validation_data.vocab_file=$corpus/vocabulary.txt,\
task.validation_data.input_path=$corpus/validation.json.gz,trainer.train_steps=$train_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$train_steps"

# Scores of questions that were never seen.
quintain train --mode=eval --model-dir="$directory/run" --quiet \
  --set task.validation_data.input_path="$corpus/test.json.gz"
tail -n 1 "$directory/run/evaluations.jsonl"

quintain export --model-dir="$directory/run" --output="$directory/export" --overwrite
question='{"question": "Where was Mila born ?",
  "context": "Mila was born in Kremberg . The winters were long in those days ."}'
tr -d '\n' <<< "$question" | quintain predict --model-dir="$directory/export"

FIELD=instances "$here/serve_and_ask.sh" "$directory/export" "$question" \
  | tee "$directory/answer.txt"
