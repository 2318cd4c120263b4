#!/usr/bin/env bash
# The whole road of BERT: raw text -> vocabulary -> masked records -> pretraining -> fine-tuning ->
# evaluation -> export -> predictions for a file -> answers over HTTP.
#
#   bert_road.sh DIRECTORY CORPUS
#
# CORPUS holds text/*.txt to pretrain on, and train.tsv, valid.tsv and test.tsv with a header line
# and two columns, text and class. examples/language_identification/run.sh makes one and goes on here.
#
# Settings by environment: CONFIGS (directory of pretrain.yaml and finetune.yaml), VOCAB_SIZE,
# PRETRAIN_LENGTH (tokens of a sequence), PRETRAIN_STEPS, FINETUNE_STEPS, NUM_LINES (to predict),
# PORT, and in PRETRAIN_SET and FINETUNE_SET overrides `a.b=1,c=2` of the two configs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: bert_road.sh DIRECTORY CORPUS}
corpus=${2:?usage: bert_road.sh DIRECTORY CORPUS}
configs=${CONFIGS:-$here/language_identification}
pretrain_steps=${PRETRAIN_STEPS:-1000}
finetune_steps=${FINETUNE_STEPS:-1000}
length=${PRETRAIN_LENGTH:-128}
masked=$((length * 20 / 128))
vocabulary=$directory/vocabulary.model
classes=$(tail -n +2 "$corpus/train.tsv" | cut -f 2 | LC_ALL=C sort -u | paste -sd ,)
mkdir -p "$directory"

quintain data sentencepiece --input="$corpus/text/*.txt" --output="$vocabulary" \
  --vocab-size="${VOCAB_SIZE:-8000}" --model-type=unigram --character-coverage=0.9999 \
  --control-symbols='[CLS],[SEP],[MASK]'

quintain data mlm --input="$corpus/text/*.txt" --vocab-file="$vocabulary" \
  --output="$directory/records/train" --seq-length="$length" --max-predictions-per-seq="$masked" \
  --dupe-factor=2 --seed=1
quintain data mlm --input="$corpus/text/*.txt" --vocab-file="$vocabulary" \
  --output="$directory/records/check" --seq-length="$length" --max-predictions-per-seq="$masked" --seed=2

quintain train --experiment=bert/pretraining --config-file="$configs/pretrain.yaml" \
  --model-dir="$directory/pretraining" --quiet --params_override="${PRETRAIN_SET:+$PRETRAIN_SET,}\
task.vocab_file=$vocabulary,task.train_data.input_path=$directory/records/train-*,\
task.validation_data.input_path=$directory/records/check-*,\
task.train_data.seq_length=$length,task.validation_data.seq_length=$length,\
task.train_data.max_predictions_per_seq=$masked,task.validation_data.max_predictions_per_seq=$masked,\
trainer.validation_steps=20,trainer.train_steps=$pretrain_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$pretrain_steps"

quintain train --experiment=bert/sentence_prediction_text --config-file="$configs/finetune.yaml" \
  --model-dir="$directory/classifier" --quiet --params_override="${FINETUNE_SET:+$FINETUNE_SET,}\
task.init_checkpoint=$directory/pretraining,task.label_names=[$classes],\
task.train_data.input_path=$corpus/train.tsv,\
task.train_data.vocab_file=$vocabulary,task.validation_data.vocab_file=$vocabulary,\
task.validation_data.input_path=$corpus/valid.tsv,trainer.train_steps=$finetune_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$finetune_steps"

# Scores of texts that were never seen.
quintain train --mode=eval --model-dir="$directory/classifier" --quiet \
  --set task.validation_data.input_path="$corpus/test.tsv"
tail -n 1 "$directory/classifier/evaluations.jsonl"

quintain export --model-dir="$directory/classifier" --output="$directory/export" --overwrite

head -n "$((${NUM_LINES:-20} + 1))" "$corpus/test.tsv" | tail -n +2 > "$directory/test.tsv"
cut -f 1 "$directory/test.tsv" | quintain predict --model-dir="$directory/export" \
  > "$directory/predictions.tsv"
paste "$directory/predictions.tsv" "$directory/test.tsv"

"$here/serve_and_ask.sh" "$directory/export" '"Wo ist der Bahnhof?"' '"Où est la gare ?"' \
  | tee "$directory/answer.txt"
