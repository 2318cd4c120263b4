#!/usr/bin/env bash
# Trains on a TSV file of your own and translates with the result: examples/04_own_data.sh [DIRECTORY]
set -euo pipefail
directory=${1:-$(mktemp -d)}

colours=(red:rot green:grün blue:blau white:weiß black:schwarz)
things=("house:das Haus" "car:das Auto" "book:das Buch" "table:der Tisch" "lamp:die Lampe")
for colour in "${colours[@]}"; do
  for thing in "${things[@]}"; do
    printf 'the %s is %s\t%s ist %s\n' "${thing%%:*}" "${colour%%:*}" "${thing#*:}" "${colour#*:}"
  done
done > "$directory/pairs.tsv"

quintain train --experiment=translation/small --model-dir="$directory/run" \
  --set task.train_data.input_path="$directory/pairs.tsv" \
  --set task.validation_data.input_path="$directory/pairs.tsv" \
  --set task.train_data.global_batch_size=256 \
  --set task.vocab_size=100 --set task.model.embedding_width=32 \
  --set task.model.encoder='{num_layers: 1, num_attention_heads: 2, intermediate_size: 64}' \
  --set task.model.decoder='{num_layers: 1, num_attention_heads: 2, intermediate_size: 64}' \
  --set trainer.train_steps=20 --set trainer.validation_interval=20

echo "the lamp is blue" | quintain translate --model-dir="$directory/run"
