"""Prints hashes of what native kernels give: python hash_kernels.py NUM_THREADS."""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))

from quintain.kernels import library, sources
from tests.kernels import kernel_table

rows = np.random.default_rng(0).normal(size=[403, 701]).astype(np.float32)
loaded = library.load()
newest = 1 + list(sources.INSTRUCTION_SETS).index(loaded.instruction_set)
hashes = {}
for isa, name in list(enumerate(sources.INSTRUCTION_SETS, 1))[:newest]:
    loaded.functions.quintain_limit_isa(isa)
    for dtype in (tf.float32, tf.bfloat16):
        x = tf.cast(rows, dtype)
        found = {
            key: kernel_table.run(one, one.native, x) for key, one in kernel_table.KERNELS.items()
        }
        for key, results in found.items():
            digest = hashlib.sha256(b"".join(one.tobytes() for one in results)).hexdigest()
            hashes[f"{key} {dtype.name} {name}"] = digest
print(json.dumps(hashes))
