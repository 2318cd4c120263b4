#!/usr/bin/env bash
# The road of ELECTRA: raw text -> vocabulary -> pretraining, masked on the fly -> fine-tuning of the
# discriminator -> export -> answers over HTTP.
#
#   electra_road.sh DIRECTORY [TEXT TRAIN VALIDATION]
#
# TEXT is a pattern of text files, TRAIN and VALIDATION are TSV files with a header line and the
# columns text and label. Without them it learns to tell English from German numbers and dates, from
# the corpus that is bundled with the package. Settings by environment: PRETRAIN_STEPS,
# FINETUNE_STEPS, PORT, and in PRETRAIN_SET and FINETUNE_SET overrides `a.b=1,c=2` of the configs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: electra_road.sh DIRECTORY [TEXT TRAIN VALIDATION]}
mkdir -p "$directory"
if [ $# -eq 1 ]; then
  corpora=$(python -c 'import quintain.nlp.data.corpora as c; print(*c.__path__)')
  for part in train validation; do
    gzip -dc "$corpora/numbers_and_dates/$part.tsv.gz" | awk -F '\t' -v OFS='\t' \
      'BEGIN { print "text", "label" } { print $1, "en"; print $2, "de" }' > "$directory/$part.tsv"
  done
  tail -n +2 "$directory/train.tsv" | cut -f 1 > "$directory/text.txt"
  set -- "$directory" "$directory/text.txt" "$directory/train.tsv" "$directory/validation.tsv"
fi
pretrain_steps=${PRETRAIN_STEPS:-1000}
finetune_steps=${FINETUNE_STEPS:-200}
vocabulary=$directory/vocabulary.model
classes=$(tail -n +2 "$3" | cut -f 2 | LC_ALL=C sort -u | paste -sd ,)
sizes='vocab_size=160,embedding_size=128,hidden_size=128,num_layers=2,num_attention_heads=4,'
sizes+='intermediate_size=512,max_position_embeddings=128,norm_first=true'  # of electra/local

quintain data sentencepiece --input="$2" --output="$vocabulary" --vocab-size=160 \
  --control-symbols='[CLS],[SEP],[MASK]'

quintain train --experiment=electra/local --model-dir="$directory/pretraining" --quiet \
  --params_override="${PRETRAIN_SET:+$PRETRAIN_SET,}\
task.train_data.input_path=$2,task.validation_data.input_path=$2,\
task.train_data.vocab_file_path=$vocabulary,task.validation_data.vocab_file_path=$vocabulary,\
trainer.validation_steps=20,trainer.train_steps=$pretrain_steps,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$pretrain_steps"
tail -n 1 "$directory/pretraining/evaluations.jsonl"

for part in train validation; do
  data="$(printf 'task.%s_data.%s,' "$part" "text_fields=[text]" "$part" "seq_length=32" \
    "$part" "tokenization=SentencePiece" "$part" "global_batch_size=64")${data:-}"
done
quintain train --experiment=bert/sentence_prediction_text --model-dir="$directory/classifier" \
  --quiet --params_override="$data$(sed 's/[^,]*/task.model.encoder.bert.&/g' <<< "$sizes"),\
task.init_checkpoint=$directory/pretraining,task.label_names=[$classes],\
task.train_data.input_path=$3,task.validation_data.input_path=$4,\
task.train_data.vocab_file=$vocabulary,task.validation_data.vocab_file=$vocabulary,\
trainer.train_steps=$finetune_steps,trainer.steps_per_loop=10,trainer.checkpoint_interval=100,\
trainer.validation_interval=$finetune_steps,trainer.summary_interval=10,\
trainer.optimizer_config.learning_rate.polynomial.decay_steps=$finetune_steps,\
trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.0005,\
trainer.optimizer_config.warmup.polynomial.warmup_steps=20${FINETUNE_SET:+,$FINETUNE_SET}"
tail -n 1 "$directory/classifier/evaluations.jsonl"

quintain export --model-dir="$directory/classifier" --output="$directory/export" --overwrite

"$here/serve_and_ask.sh" "$directory/export" '"half past three"' '"drei Viertel"' \
  | tee "$directory/answer.txt"
