#!/usr/bin/env bash
# From folders of images to an answer over HTTP: draws shapes, trains, evaluates, exports, predicts.
#
#   image_road.sh DIRECTORY
#
# Settings by environment: STEPS, PORT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: image_road.sh DIRECTORY}
steps=${STEPS:-400}
images=$directory/shapes

quintain data example shapes --output="$images"
quintain train --experiment=image/local --model-dir="$directory/run" --quiet \
  --set task.train_data.input_path="$images/train" \
  --set task.validation_data.input_path="$images/validation" --set trainer.train_steps="$steps"
tail -n 1 "$directory/run/evaluations.jsonl"

quintain export --model-dir="$directory/run" --output="$directory/export" --overwrite
quintain predict --model-dir="$directory/export" "$images"/validation/ring/*.png \
  > "$directory/predictions.jsonl"
head -n 3 "$directory/predictions.jsonl"

image=$(base64 < "$images/validation/circle/0001.png" | tr -d '\n')
FIELD=instances "$here/serve_and_ask.sh" "$directory/export" "{\"b64\": \"$image\"}" \
  | tee "$directory/answer.txt"
