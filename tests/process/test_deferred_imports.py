"""Parts of TensorFlow and Keras wait until they are used, and are then what they always were."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_WAIT = """
import sys, threading
from quintain.process import start_up
start_up.prepare()
import keras, tensorflow as tf
waiting = "keras._tf_keras.keras.layers"
for name in ("matplotlib", "pandas", "sklearn", "tensorflow.lite.python", waiting):
    assert name not in sys.modules, name
"""
_USE = """
found = []
threads = [threading.Thread(target=lambda: found.append(tf.lite.TFLiteConverter)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 8 and set(found) == {tf.lite.TFLiteConverter}
assert type(sys.modules["tensorflow._api.v2.lite"].__loader__).__name__ == "SourceFileLoader"

assert "Session" in dir(tf.compat.v1) and tf.compat.v2.constant is tf.constant
assert tf.compat.v1 is sys.modules["tensorflow._api.v2.compat.v1"]
import tensorflow.compat.v1 as v1
with v1.Graph().as_default(), v1.Session() as session:
    assert session.run(v1.train.get_or_create_global_step().initializer) is None
    assert session.run(v1.nn.relu([-1.0, 2.0])).tolist() == [0.0, 2.0]
assert tf.feature_column.numeric_column("x").key == "x"
assert keras.wrappers.SKLearnClassifier.__name__ == "SKLearnClassifier"
assert tf.keras.layers.Dense is keras.layers.Dense and tf.keras.losses.Reduction.SUM == "sum"
assert "Model" in dir(tf.keras) and tf.keras is sys.modules["keras._tf_keras.keras"]
import tensorflow.keras.backend as backend
assert backend.floatx() == "float32" and tf.keras.preprocessing.text.Tokenizer
assert tf.keras.applications.MobileNetV2 and keras.datasets.mnist and keras.visualization
from keras.applications import resnet
import importlib
interpreter = importlib.import_module("tensorflow.lite.python.interpreter")
assert resnet.ResNet50 and tf.lite.Interpreter is interpreter.Interpreter
assert not hasattr(tf.lite, "no_such_name")

from tensorflow.python.saved_model import revived_types
assert "tf_deprecated_optimizer" in revived_types._REVIVED_TYPE_REGISTRY
print("done")
"""


def _run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_parts_wait_and_are_whole_when_they_are_used():
    done = _run(_WAIT + _USE)

    assert done.stdout == "done\n", done.stderr


@pytest.mark.long("Another test uses each part in every run")
def test_a_part_that_can_not_be_imported_says_so_whenever_it_is_asked_for():
    done = _run(
        "import sys\nfrom quintain.process import start_up\nstart_up.prepare()\n"
        "import tensorflow as tf\n"
        "sys.modules['tensorflow.lite.python.lite'] = None\n"
        "for _ in range(2):\n"
        "    try: tf.lite.Interpreter\n"
        "    except ImportError as error: print(type(error).__name__)\n"
        "del sys.modules['tensorflow.lite.python.lite']\n"
        "print(tf.lite.Interpreter.__name__)\n"
    )

    assert done.stdout == "ModuleNotFoundError\nModuleNotFoundError\nInterpreter\n", done.stderr


@pytest.mark.long("Another test uses each part in every run")
def test_what_is_found_by_registries_is_there_from_the_start():
    listing = """
import tensorflow
from tensorflow.python.framework import ops, type_spec_registry
from tensorflow.python.saved_model import revived_types
from tensorflow.python.saved_model.registration import registration
print(sorted(ops.gradient_registry.list()))
print(sorted(revived_types._REVIVED_TYPE_REGISTRY), sorted(type_spec_registry._NAME_TO_TYPE_SPEC))
print(sorted(registration._class_registry._registered_names))
print(sorted(registration._saver_registry._registered_names))
import keras
from keras.src import api_export
from keras.src.saving import object_registration
waiting = ("applications", "datasets", "visualization", "wrappers")  # No saved model names them.
names = [name for name in api_export.REGISTERED_NAMES_TO_OBJS if name.split(".")[1] not in waiting]
print(sorted(names), sorted(object_registration.GLOBAL_CUSTOM_OBJECTS))
"""

    prepared = _run("from quintain.process import start_up; start_up.prepare()\n" + listing)

    assert prepared.stdout == _run(listing).stdout != ""
