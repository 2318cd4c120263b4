"""Times the training step of a Transformer beside PyTorch and Keras, in float32 and bfloat16.

python benchmarks/training_step.py [--rounds=3] [--steps=20] [--warmup=6]
    [--precisions=bfloat16,float32] [--peers=quintain,torch,keras-tensorflow,keras-jax]
python benchmarks/training_step.py --check

All train the model of `benchmarks/training_step_peers/batches.py` from the same weights on the same
batches with Adam, each in a process of its own, one after the other in every round. Printed are
tokens a second of both sides, the loss on the first batch after the last step, without dropout (the
steps before it draw different random numbers for theirs), the most memory that the process held,
and the ratio of ours to each peer's; and what share of the speed of the machine's matrix products
ours is. The peers are installed into environments of their own in the user's cache directory.

`--check` shows that all do the same work: a tiny model of the same code, in float32 and without
dropout, is trained for ten steps, and the losses must be equal to 0.1 %.
"""

import os
import pathlib
import statistics
import time

import step_comparison

HERE = pathlib.Path(__file__).parent / "training_step_peers"
PEERS = "quintain,torch,keras-tensorflow,keras-jax"


def measure_products(precision: str) -> float:
    """Returns how many operations a second the matrix products of the step could do, in 1e9."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    dtype = tf.as_dtype(precision)
    speeds = []
    for inner, outer in ((512, 2048), (2048, 512), (512, 8000)):
        left = tf.cast(tf.random.normal([32 * 48, inner]), dtype)
        right = tf.cast(tf.random.normal([inner, outer]), dtype)
        multiply = tf.function(tf.matmul)
        multiply(left, right)
        secs = []
        for _ in range(20):
            start = time.perf_counter()
            multiply(left, right)
            secs.append(time.perf_counter() - start)
        speeds.append(2 * 32 * 48 * inner * outer / min(secs) / 1e9)
    return statistics.mean(speeds)


def count_operations() -> float:
    """Returns the operations of the matrix products with weights, for a token of both sides.

    Forward and backward pass together are three products; each multiplies and adds.
    """
    width, inner, layers, vocab = 512, 2048, 3, 8000
    encoder = layers * (4 * width * width + 2 * width * inner)
    decoder = layers * (8 * width * width + 2 * width * inner) + vocab * width
    return 3 * 2 * (encoder + decoder) / 2


def print_limit(precision: str, speeds: dict[str, float]) -> None:
    """Prints how close ours is to matrix products alone."""
    if "quintain" in speeds:
        limit = measure_products(precision) * 1e9 / count_operations()
        share = 100 * speeds["quintain"] / limit
        print(f"  matrix products alone {limit:8,.0f} tokens/s; ours is {share:.0f} % of it")


if __name__ == "__main__":
    options = step_comparison.parse(__doc__, peers=PEERS, steps=20, warmup=6)
    step_comparison.compare(HERE, options, print_limit)
