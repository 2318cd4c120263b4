#!/usr/bin/env bash
# From a CSV file to an answer over HTTP: draws a table of flats, trains, exports, predicts rents.
#
#   tabular_road.sh DIRECTORY
#
# Settings by environment: STEPS, PORT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: tabular_road.sh DIRECTORY}
steps=${STEPS:-1000}
tables=$directory/flats

quintain data example flats --output="$tables"
quintain train --experiment=tabular/table --model-dir="$directory/run" --quiet \
  --set task.target=rent --set task.train_data.input_path="$tables/train.csv" \
  --set task.validation_data.input_path="$tables/validation.csv" \
  --set trainer.train_steps="$steps"
tail -n 1 "$directory/run/evaluations.jsonl"

quintain export --model-dir="$directory/run" --output="$directory/export" --overwrite
quintain predict --model-dir="$directory/export" --input="$tables/validation.csv" \
  > "$directory/predictions.jsonl"
head -n 3 "$directory/predictions.jsonl"

FIELD=instances "$here/serve_and_ask.sh" "$directory/export" '{"Fläche (m²)": 50, "rooms": 2,
  "year": null, "floor": 1, "district": "Hafen", "heating": "gas"}' | tee "$directory/answer.txt"
