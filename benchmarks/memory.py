"""Measures the peak memory of training `translation/local` above that of importing TensorFlow.

python benchmarks/memory.py [TRAIN_STEPS]

Beside it: an embedding of 2 million rows of 16 numbers, trained by SGD with `quintain.fit`, which
saves two checkpoints after each of two epochs, and with Keras' `fit`, which saves none.
"""

import os
import shutil
import subprocess
import sys
import tempfile

MEASURE = """
import resource, sys
{body}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
"""

TRAIN = """
from quintain.cli import main
code = main.run(["train", "--experiment=translation/local", "--quiet",
    "--model_dir={directory}/run",
    "--set=trainer.train_steps={steps}", "--set=trainer.validation_interval={steps}"])
assert code == 0, code
"""

EMBEDDING = """
import keras, numpy as np
layers = [keras.layers.Embedding(2_000_000, 16), keras.layers.Flatten(), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input([8], dtype="int32"), *layers])
model.compile("sgd", "mse")
x = np.random.default_rng(0).integers(0, 2_000_000, [640, 8]).astype("int32")
y = np.zeros([640, 1], "float32")
if {is_ours}:
    import quintain
    quintain.fit(model, (x, y), (x, y), model_dir="{directory}/fit", epochs=2, verbose=0)
else:
    model.fit(x, y, validation_data=(x, y), epochs=2, verbose=0)
"""


def measure(body: str) -> int:
    """Returns the peak resident memory, in bytes, of a new interpreter that runs `body`."""
    result = subprocess.run(
        [sys.executable, "-c", MEASURE.format(body=body)],
        check=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    return int(result.stderr.split()[-1])


def main() -> None:
    """Prints both and the difference."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    directory = tempfile.mkdtemp()
    try:
        baseline = measure("import tensorflow")
        training = measure(TRAIN.format(directory=directory, steps=steps))
        embeddings = [
            measure(EMBEDDING.format(directory=directory, is_ours=is_ours))
            for is_ours in (True, False)
        ]
    finally:
        shutil.rmtree(directory)
    print(f"import tensorflow      {baseline / 1e9:6.2f} GB")
    print(f"translation/local      {training / 1e9:6.2f} GB, {steps} steps and an evaluation")
    print(f"  above the import     {(training - baseline) / 1e9:6.2f} GB (bar: 1.2 GB)")
    print(f"  ratio                {training / baseline:6.2f}")
    for name, peak in zip(("quintain.fit", "Keras' fit"), embeddings, strict=True):
        print(f"embedding, {name:12}{peak / 1e9:6.2f} GB")


if __name__ == "__main__":
    main()
