"""Times the pretraining step of BERT-base beside Hugging Face and Keras, in float32 and bfloat16.

python benchmarks/bert_step.py [--rounds=3] [--steps=10] [--warmup=3]
    [--precisions=bfloat16,float32] [--peers=quintain,torch,torch-gathered,...]
python benchmarks/bert_step.py --check

All train the model of `benchmarks/bert_step_peers/batches.py` from the same weights on the same
batches with AdamW, each in a process of its own, one after the other in every round. `torch` is
`BertForPreTraining` as it is, which computes the logits of every position; `torch-gathered` is its
encoder and its heads, the latter on the masked positions only, as in Quintain and in the models of
Keras. `torch-compile` and `torch-gathered-compile` compile them. Printed are tokens a second, the
loss on a batch held out after the last step, without dropout (the steps before it draw different
random numbers for theirs), the most memory that the process held, and the ratio of ours to each
peer's.

`--check` shows that all do the same work: a tiny model of the same code, in float32 and without
dropout, is trained for ten steps, and the losses must be equal to 0.1 %.
"""

import pathlib

import step_comparison

HERE = pathlib.Path(__file__).parent / "bert_step_peers"
PEERS = "quintain,torch,torch-gathered,keras-tensorflow,keras-jax"

if __name__ == "__main__":
    step_comparison.compare(HERE, step_comparison.parse(__doc__, peers=PEERS, steps=10, warmup=3))
