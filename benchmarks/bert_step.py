"""Times the pretraining step of BERT-base beside Hugging Face and Keras, in float32 and bfloat16.

python benchmarks/bert_step.py [--rounds=3] [--steps=10] [--precisions=bfloat16,float32]
    [--peers=quintain,torch,torch-gathered,keras-tensorflow,keras-jax]

All train the model of `benchmarks/bert_step_peers/batches.py` on the same batches with AdamW, each
in a process of its own, one after the other in every round. `torch` is `BertForPreTraining` as it
is, which computes the logits of every position; `torch-gathered` is its encoder and its heads, the
latter on the masked positions only, as in Quintain and in the models of Keras. `torch-compile` and
`torch-gathered-compile` compile them. Printed are tokens a second, the loss on a batch held out
after the last step, without dropout (the models start from other random numbers), the most memory
that the process held, and the ratio of ours to each peer's. The environments of the peers are those
of `training_step.py`.
"""

import argparse
import pathlib

import training_step

HERE = pathlib.Path(__file__).parent / "bert_step_peers"


def main() -> None:
    """Prints the medians and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--precisions", default="bfloat16,float32")
    parser.add_argument(
        "--peers", default="quintain,torch,torch-gathered,keras-tensorflow,keras-jax"
    )
    options = parser.parse_args()
    for precision in options.precisions.split(","):
        found: dict[str, list[dict[str, float]]] = {name: [] for name in options.peers.split(",")}
        for _ in range(options.rounds):
            for name, measured in found.items():
                measured.append(training_step.run(name, precision, options.steps, HERE))
                print(f"{precision} {name} {measured[-1]}", flush=True)
        training_step.print_comparison(found)


if __name__ == "__main__":
    main()
