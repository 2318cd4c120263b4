#!/usr/bin/env bash
# The whole road of fine-tuning, without a download: a tiny GPT and conversations that are made
# here -> training -> answers -> answers over HTTP -> a preset -> adapters on it -> Transformers.
#
#   fine_tuning_road.sh DIRECTORY
#
# Settings by environment: STEPS of the first training, ADAPTER_STEPS of the second, PORT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: fine_tuning_road.sh DIRECTORY}
steps=${STEPS:-600}
mkdir -p "$directory"

quintain train --experiment=sft/local --model-dir="$directory/chat" --quiet \
  --set trainer.train_steps="$steps" \
  --set trainer.optimizer_config.learning_rate.polynomial.decay_steps="$steps"
tail -n 1 "$directory/chat/evaluations.jsonl"
quintain predict --model-dir="$directory/chat" "What comes after Friday?"

ROUTE=/v1/chat/completions FIELD=messages MORE='"stream": true' "$here/serve_and_ask.sh" \
  "$directory/chat" '{"role": "user", "content": "Is 4711 even or odd?"}' \
  | tee "$directory/answer.txt"

# The trained model is a preset like any other, to which adapters can be taught something else.
quintain export --model-dir="$directory/chat" --output="$directory/preset" --format=preset --overwrite
printf '%s\n' '{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "A toy."}]}' \
  > "$directory/talks.jsonl"
quintain train --experiment=hub/sft --model-dir="$directory/adapted" --quiet \
  --set task.model.preset="$directory/preset" --set task.model.sequence_length=128 \
  --set task.template.name=plain --set task.train_data.input_path="$directory/talks.jsonl" \
  --set task.validation_data.input_path="$directory/talks.jsonl" \
  --set task.train_data.global_batch_size=1 --set task.validation_data.global_batch_size=1 \
  --set trainer.train_steps="${ADAPTER_STEPS:-200}" --set trainer.validation_interval=100 \
  --set trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.01
quintain predict --model-dir="$directory/adapted" "Who are you?"
quintain export --model-dir="$directory/adapted" --output="$directory/transformers" \
  --format=transformers --overwrite
