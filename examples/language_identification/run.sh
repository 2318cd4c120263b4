#!/usr/bin/env bash
# The whole road of BERT: text of many languages -> vocabulary -> masked records -> pretraining ->
# fine-tuning -> accuracy and F1 on texts that were never seen.
#
#   run.sh DIRECTORY [OPTION of make_corpus.py ...]
#
# Settings by environment: VOCAB_SIZE, PRETRAIN_STEPS, FINETUNE_STEPS, and in PRETRAIN_SET and
# FINETUNE_SET overrides `a.b=1,c=2` of the two configs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: run.sh DIRECTORY [OPTION of make_corpus.py ...]}
shift
vocab_size=${VOCAB_SIZE:-8000}
pretrain_steps=${PRETRAIN_STEPS:-1000}
finetune_steps=${FINETUNE_STEPS:-1000}

python "$here/make_corpus.py" "$directory/corpus" "$@"
languages=$(paste -sd, "$directory/corpus/languages.txt")
vocabulary=$directory/vocabulary.model

quintain data sentencepiece --input="$directory/corpus/text/*.txt" --output="$vocabulary" \
  --vocab_size="$vocab_size" --model_type=unigram --character_coverage=0.9999 \
  --control_symbols='[CLS],[SEP],[MASK]'

quintain data mlm --input="$directory/corpus/text/*.txt" --vocab_file="$vocabulary" \
  --output="$directory/records/train" --seq_length=128 --max_predictions_per_seq=20 \
  --dupe_factor=2 --seed=1
quintain data mlm --input="$directory/corpus/text/*.txt" --vocab_file="$vocabulary" \
  --output="$directory/records/check" --seq_length=128 --max_predictions_per_seq=20 --seed=2

quintain train --experiment=bert/pretraining --config_file="$here/pretrain.yaml" \
  --model_dir="$directory/pretraining" --quiet --params_override="${PRETRAIN_SET:+$PRETRAIN_SET,}\
task.vocab_file=$vocabulary,task.train_data.input_path=$directory/records/train-*,\
task.validation_data.input_path=$directory/records/check-*,\
trainer.validation_steps=20,trainer.train_steps=$pretrain_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$pretrain_steps"

quintain train --experiment=bert/sentence_prediction_text --config_file="$here/finetune.yaml" \
  --model_dir="$directory/classifier" --quiet --params_override="${FINETUNE_SET:+$FINETUNE_SET,}\
task.init_checkpoint=$directory/pretraining,task.label_names=[$languages],\
task.train_data.input_path=$directory/corpus/train.tsv,\
task.train_data.vocab_file=$vocabulary,task.validation_data.vocab_file=$vocabulary,\
task.validation_data.input_path=$directory/corpus/test.tsv,trainer.train_steps=$finetune_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$finetune_steps"

tail -n 1 "$directory/classifier/training.jsonl"
