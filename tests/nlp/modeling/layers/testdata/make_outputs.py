"""Writes `outputs.json`: what layers of the TensorFlow Model Garden give, of which ours are tested.

    TF_USE_LEGACY_KERAS=1 python make_outputs.py

needs TensorFlow Model Garden (https://github.com/tensorflow/models) and tf-keras.
"""

import json
import pathlib

import cases
import official.nlp.modeling.layers as layers
import tensorflow as tf

FILE = pathlib.Path(__file__).with_name("outputs.json")


def name_weight(name):
    """Returns the two last parts of a weight's name, with the attention that it is of."""
    name = name.partition(":")[0].replace("attention/encdec_", "encdec_")
    *rest, last = name.split("/")
    parts = [*rest[-1:], last] if len(rest) > 1 else [last]
    return "/".join((["encdec"] if "encdec" in rest else []) + parts)


def load(layer):
    """Writes the weights of the cases."""
    for weight in layer.weights:
        weight.assign(cases.draw(name_weight(weight.name), *weight.shape))


def make():
    """Returns dtype, shape and fingerprint of each output of each case."""
    results = {}
    for name, case in cases.list_cases(layers).items():
        case = tf.nest.map_structure(lambda x: tf.constant(x) if hasattr(x, "shape") else x, case)
        layer, compute = cases.run(layers, case, load)
        outputs = [part for part in tf.nest.flatten(compute(layer)) if part is not None]
        results[name] = [
            [part.dtype.name, part.shape.as_list(), cases.fingerprint(part)] for part in outputs
        ]
    return results


if __name__ == "__main__":
    text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in make().items())
    FILE.write_text("{\n" + text + "\n}\n")
