"""Exceptions as TensorFlow and Keras raise them, with the frames cut to those that matter."""

import pathlib
import sysconfig

import pytest

from quintain.process import user_errors

LIBRARY = user_errors.__file__

TRACED = f"""in user code:

    File "{LIBRARY}", line 366, in step_fn  *
        logs = task_train_step(
    File "/home/me/task.py", line 13, in build_losses  *
        return tf.reduce_mean(tf.square(label - model_outputs))

    NameError: name 'label' is not defined
"""
LAYER = f"""in user code:

    File "{LIBRARY}", line 337, in train_step  *
        outputs = model(features, training=True)
    File "/home/me/layers.py", line 21, in call
        raise ValueError("this layer is tired")

    ValueError: Exception encountered when calling Tired.call().

    \x1b[1mthis layer is tired\x1b[0m

    Arguments received by Tired.call():
      • inputs=tf.Tensor(shape=(None, 2), dtype=float32)
"""
NODE = f"""Graph execution error:

Detected at node Assert/Assert defined at (most recent call last):
  File "{LIBRARY}", line 271, in compute_loss

  File "/home/me/task.py", line 14, in build_losses

assertion failed: [loss is too small]
\t [[{{{{node Assert/Assert}}}}]] [Op:__inference_loop_fn_309]"""
SEVERAL = """Graph execution error:

Detected at node 'MatMul' defined at (most recent call last):
  File "/home/me/task.py", line 5, in build_losses

2 root error(s) found.
  (0) INVALID_ARGUMENT:  Matrix size-incompatible: In[0]: [4,1], In[1]: [3,1]
\t [[{{node MatMul}}]]
  (1) CANCELLED:  Function was cancelled before it was started
0 successful operations.
0 derived errors ignored. [Op:__inference_loop_fn_309]"""
GENERATOR = f"""Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
KeyError: 'text'
Traceback (most recent call last):

  File "{LIBRARY}", line 198, in generator_py_func
    values = next(generator_state.get_iterator(iterator_id))
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

  File "/home/me/task.py", line 15, in generate
    yield example["text"], [1.0]
          ~~~~~~~^^^^^^^^

KeyError: 'text'


\t [[{{{{node PyFunc}}}}]] [Op:__inference_loop_fn_673]"""
MAPPED = """Graph execution error:

Detected at node EagerPyFunc defined at (most recent call last):
<stack traces unavailable>
Error in user-defined function passed to MapDataset:74 transformation with iterator: \
Iterator::Root::Prefetch::Map: ZeroDivisionError: integer division or modulo by zero
Traceback (most recent call last):

  File "/home/me/task.py", line 14, in divide
    return features.numpy() / (1 // 0)

ZeroDivisionError: integer division or modulo by zero


\t [[{{node EagerPyFunc}}]] [Op:__inference_loop_fn_4096]"""


class InvalidArgumentError(Exception):
    """Stands for the one of TensorFlow."""


@pytest.mark.parametrize(
    ("error", "cause", "place", "part"),
    [
        (NameError(TRACED), "NameError: name 'label' is not defined", "task.py:13", "the loss"),
        (ValueError(LAYER), "ValueError: this layer is tired", "layers.py:21", "training step"),
        (
            InvalidArgumentError(NODE),
            "InvalidArgumentError: assertion failed: [loss is too small]",
            "task.py:14",
            "the loss",
        ),
        (
            InvalidArgumentError(SEVERAL),
            "InvalidArgumentError: Matrix size-incompatible: In[0]: [4,1], In[1]: [3,1]",
            "task.py:5",
            "the loss",
        ),
        (InvalidArgumentError(GENERATOR), "KeyError: 'text'", "task.py:15", "a generator"),
        (
            InvalidArgumentError(MAPPED),
            "ZeroDivisionError: integer division or modulo by zero",
            "task.py:14",
            "called by `map`",
        ),
    ],
    ids=["traced", "layer", "node", "several", "generator", "mapped"],
)
def test_cause_and_line_come_out_of_the_message(error, cause, place, part):
    found = user_errors.explain(error)

    assert found.cause.splitlines()[0] == cause
    assert f"/home/me/{place}, in " in found.place
    assert part in found.part


def run_program(path, text):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - each program has its own
        exec(compile(text, str(path), "exec"), {})
    return caught.value


def test_the_line_of_an_ordinary_exception_is_shown_with_its_code(tmp_path):
    path = tmp_path / "a [1] ü.py"
    error = run_program(path, "def divide():\n    return 1 // 0\n\ndivide()\n")

    cause, place = user_errors.explain(error).lines

    assert cause.startswith("ZeroDivisionError: ")
    assert place == f"  {path}:2, in divide: return 1 // 0"


def test_the_innermost_line_of_the_user_counts_where_a_library_raised(tmp_path):
    path = tmp_path / "task.py"
    error = run_program(path, "import json\n\njson.loads('{')\n")

    assert f"{path}:3" in user_errors.explain(error).place


def test_a_mistake_of_syntax_is_placed_where_it_is(tmp_path):
    path = tmp_path / "task.py"
    error = run_program(path, "def f(:\n")

    assert user_errors.explain(error).cause == "SyntaxError: invalid syntax"
    assert f"{path}:1" in user_errors.explain(error).place


def test_the_exception_behind_another_one_tells_the_line(tmp_path):
    inner = run_program(tmp_path / "task.py", "raise KeyError('x')\n")
    outer = ValueError("the trial failed")
    outer.__cause__ = inner

    found = user_errors.explain(outer)

    assert found.cause == "ValueError: the trial failed"
    assert "task.py:1" in found.place


def test_an_exception_of_the_package_itself_has_no_place():
    try:
        user_errors.locate(1)
    except AttributeError as error:
        caught = error

    assert "test_user_errors.py" in user_errors.explain(caught).place
    assert user_errors.explain(ValueError("x")).place == ""
    assert user_errors.explain(ValueError()).lines == ["ValueError"]


def test_a_class_is_named_where_no_frame_is_the_user_s():
    class Task:
        """Somebody's."""

    error = ValueError("inside of a library")
    with pytest.raises(ValueError, match="inside"), user_errors.noting(lambda: [Task]):
        raise error

    error.__traceback__ = None
    assert user_errors.explain(error).place.endswith("class Task:")


def test_an_error_of_xla_names_the_line_of_a_path_without_its_root(tmp_path):
    path = tmp_path / "task.py"
    path.write_text("one\ntwo\n", encoding="utf-8")
    message = (
        "Graph execution error:\n\nDetected at node MatMul defined at (most recent call last):\n"
        "<stack traces unavailable>\nMatrix size-incompatible: In[0]: [1,2], In[1]: [3,1]\n\n"
        f'Stack trace for op definition: \nFile "{str(path)[1:]}", line 2, in build_losses\n\n'
        "\t [[{{node MatMul}}]]\n\ttf2xla conversion failed while converting __inference_f_2[]. "
        "Run with TF_DUMP_GRAPH_PREFIX=/path/to/dump/dir [Op:__inference_train_3]"
    )

    found = user_errors.explain(ValueError(message))

    assert found.lines == [
        "ValueError: Matrix size-incompatible: In[0]: [1,2], In[1]: [3,1]",
        f"  {path}:2, in build_losses: two",
        "This was computing the loss.",
    ]


def test_a_lack_of_memory_says_what_to_do():
    message = (
        "Graph execution error:\n\nOOM when allocating tensor with shape[1048576,1048576] and type "
        "float on CPU:0 by allocator cpu\n\t [[{{node uniform}}]]\nHint: If you want to see a list "
        "of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
        "RunOptions for current allocation info.\n [Op:__inference_train_3]"
    )
    error = type("ResourceExhaustedError", (Exception,), {})(message)

    assert user_errors.explain(error).lines == [
        "ResourceExhaustedError: OOM when allocating tensor with shape[1048576,1048576] and type "
        "float on CPU:0 by allocator cpu",
        "There is not enough memory for it: take smaller batches, or less at once.",
    ]


def test_the_installed_command_is_not_the_user_s_code():
    script = pathlib.Path(sysconfig.get_path("scripts")) / "quintain"
    code = compile("raise ValueError('no')", str(script), "exec")

    with pytest.raises(ValueError, match="no") as caught:
        exec(code)
    error = caught.value.with_traceback(caught.tb.tb_next)

    assert not user_errors.explain(error).place
