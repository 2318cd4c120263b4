"""Line and cause of an error in the user's own code, from any exception.

TensorFlow and Keras hide both. AutoGraph puts the frames of the user's code into the message of an
error ("in user code:"), Keras wraps what a layer raised, an error at run time names a node of a
graph, and one of `tf.data` quotes a Python traceback. Nothing here imports TensorFlow.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import linecache
import os
import pathlib
import re
import site
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

_PARTS: Final = {
    "build_model": "building the model",
    "build_inputs": "building the data",
    "build_metrics": "building the metrics",
    "build_losses": "computing the loss",
    "compute_loss": "computing the loss",
    "process_metrics": "updating the metrics",
    "process_compiled_metrics": "updating the metrics",
    "initialize": "initializing the model",
    "create_optimizer": "creating the optimizer",
    "train_step": "a training step",
    "validation_step": "an evaluation step",
    "inference_step": "running the model",
    "aggregate_logs": "gathering the outputs of an evaluation",
    "reduce_aggregated_logs": "computing metrics of an evaluation",
    "generator_py_func": "a generator of the data",
}
_LIBRARIES: Final = ("tensorflow", "keras", "numpy", "quintain", "click")

_FRAME: Final = re.compile(
    r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>[^\s*]+)'
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_NODE: Final = re.compile(r"Detected at node '?([^\s']+)'? defined at|\{\{node ([^}]+)\}\}")
_KERAS: Final = re.compile(r"Exception encountered when calling (.+?)\.?\n")
_MAPPED: Final = re.compile(r"Error in user-defined function passed to (\w+):?\S* transformation")
_NOISE: Final = re.compile(
    r"Error in user-defined function passed to .*? transformation with iterator: [^ ]+: "
    r"|^\s*\(\d+\) [A-Z_]+:\s+|\{\{function_node [^}]*\}\}\s*|\{\{node [^}]*\}\}\s*"
    r"|\s*\[Op:[^\]]*\](?: name:.*)?| goo\.gle/debug\w+|^\w*Error: (?=\w*Error: )",
    re.MULTILINE,
)
_NO_MEMORY: Final = re.compile(r"MemoryError\b|ResourceExhaustedError: (OOM|Out of memory)")
_MEMORY_ADVICE: Final = "There is not enough memory for it: take smaller batches, or less at once."
_PADDING: Final = re.compile(
    r"\d+ root error\(s\) found|Stack trace for op definition|tf2xla conversion failed"
)
_DROPPED: Final = (
    "0 successful operations",
    "Hint: If you want to see a list of allocated tensors",
    "0 derived errors",
    "in user code:",
    "Graph execution error:",
    "Detected at node",
    "Detected at node(s)",
    "<stack traces unavailable>",
    "[[",
    "node)",
)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A line of code that was being run."""

    file: str
    line: int
    name: str
    """The function."""

    @property
    def code(self) -> str:
        """The line itself; empty if the file can't be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}, in {self.name}"
        return f"{place}: {self.code}" if self.code else place


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Explanation of an exception."""

    cause: str
    """Type and message of what was raised first."""

    place: str
    """The innermost line of the user's code, or the class it belongs to; empty if there is none."""

    part: str
    """What that line was run for; empty if it is not known."""

    @property
    def lines(self) -> list[str]:
        """The cause, the line of code, what it was run for, and what to do where that is known."""
        lines = [self.cause]
        lines += [f"  {self.place}"] if self.place else []
        lines += [f"This was {self.part}."] if self.part else []
        return [*lines, _MEMORY_ADVICE] if _NO_MEMORY.match(self.cause) else lines


def explain(error: BaseException) -> Explanation:
    r"""Finds the cause of an exception, and the line of the user's code where it arose.

    Example:
        >>> explain(ValueError("in user code:\n\n    NameError: name 'x' is not defined")).cause
        "NameError: name 'x' is not defined"
    """
    chain = list(_walk_chain(error))
    message = _ANSI.sub("", "\n".join(str(part) for part in chain))
    frames = [frame for part in reversed(chain) for frame in _frames_of(part)]
    frames += _graph_frames(message) if not any(map(_is_users, _quoted(str(error)))) else []
    users = [frame for frame in frames if _is_users(frame)]
    places = [str(frame) for frame in users] or getattr(error, "__notes__", [])
    return Explanation(find_cause(error), places[-1] if places else "", _name_part(frames, message))


@contextlib.contextmanager
def noting(find_sources: Callable[[], Iterable[Any]]) -> Iterator[None]:
    """Notes on exceptions which classes of the user's they come from, in case no frame tells.

    Args:
        find_sources: Returns the classes.
    """
    try:
        yield
    except Exception as error:  # It goes on as it is.
        for place in map(locate, find_sources()):
            if _is_users(place):
                error.add_note(str(place))
        raise


def locate(source: Any) -> Frame:
    """Returns the line where a class, a function or a method is defined."""
    source = inspect.unwrap(getattr(source, "__func__", source))
    name = str(source.__qualname__)
    try:
        lines, first = inspect.getsourcelines(source)
    except (OSError, TypeError):
        return Frame("<unknown>", 0, name)
    starts = [line.lstrip().startswith(("class ", "def ", "async def ")) for line in lines]
    line = first + (starts.index(True) if any(starts) else 0)  # Decorators stand before it.
    return Frame(str(inspect.getsourcefile(source)), line, name)


def skip_own_frames(frames: types.TracebackType | None) -> types.TracebackType | None:
    """Returns a traceback from the first line of the user's on; all of it if there is none."""
    part = frames
    while part is not None:
        code = part.tb_frame.f_code
        if _is_users(Frame(code.co_filename, part.tb_lineno, code.co_name)):
            return part
        part = part.tb_next
    return frames


def find_cause(error: BaseException) -> str:
    """Returns type and message of an exception, without what libraries wrap around them."""
    text = _ANSI.sub("", str(error)).strip()
    kind = type(error).__name__
    if isinstance(error, KeyError) and len(error.args) == 1 and "\n" in str(error.args[0]):
        text = str(error.args[0])
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg}"
    wrapped = _KERAS.search(text + "\n")
    text = _drop_frames(text)
    if wrapped:
        inner = text.partition("Exception encountered when calling")[2].partition("\n")[2]
        text = inner.partition("Arguments received by")[0].strip() or text
    text = text.partition("Traceback (most recent call last):")[0]
    text = _NOISE.sub("", text).strip()
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in kept if not _PADDING.match(line)][:4]
    first = kept[0] if kept else ""
    if first and not re.match(r"[A-Za-z_.]*(Error|Exception|Warning|Interrupt)\b", first):
        kept[0] = f"{kind}: {first}"
    return "\n  ".join(kept) or kind


def _walk_chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )


def _frames_of(error: BaseException) -> list[Frame]:
    """Returns the frames of one exception: those of Python, and then those in its message."""
    frames = [
        Frame(part.filename, part.lineno or 0, part.name)
        for part in traceback.extract_tb(error.__traceback__)
    ]
    frames += _quoted(str(error))
    if isinstance(error, SyntaxError) and error.filename:
        frames.append(Frame(error.filename, error.lineno or 0, "import"))
    return frames


def _quoted(message: str) -> list[Frame]:
    found = (_FRAME.match(line) for line in message.splitlines())
    return [
        Frame(_restore_root(match["file"]), int(match["line"]), match["name"])
        for match in found
        if match
    ]


def _restore_root(file: str) -> str:
    """Returns a path with the `/` that errors of XLA leave out at its beginning."""
    rooted = f"/{file}"
    return rooted if not os.path.exists(file) and os.path.isfile(rooted) else file


def _drop_frames(text: str) -> str:
    """Returns a message without the frames in it, and the lines of code below them."""
    if not (text.startswith("in user code:") or "Graph execution error" in text):
        return text
    lines = iter(text.splitlines())
    kept: list[str] = []
    is_code = False
    for line in lines:
        if line.strip().startswith("Traceback (most recent call last):") and kept:
            break
        if _FRAME.match(line):
            is_code = True
        elif is_code and line.strip():
            is_code = _is_marker(line) or not line.startswith(" " * 8)
            if not line.startswith(" " * 8):
                is_code = False
                kept.append(line)
        elif not line.strip().startswith(_DROPPED):
            kept.append(line)
    return "\n".join(line for line in kept if not line.strip().startswith(_DROPPED)).strip()


def _is_marker(line: str) -> bool:
    return set(line.strip()) <= set("^~")


def _graph_frames(message: str) -> list[Frame]:
    """Returns the user's line that made a node of a graph, where only its name is known.

    Other graphs may have a node of this name. The one that failed was made last before the
    function in which it runs: graphs and functions are numbered together.
    """
    names = {found for groups in _NODE.findall(message) for found in groups if found}
    names = {re.split(r"/_\d+/", name)[-1] for name in names}
    if not names:
        return []
    function = re.search(r"\[Op:__inference_\w*?_(\d+)\]", message)
    limit = int(function[1]) if function else sys.maxsize
    best: list[Frame] = []
    best_number = -1
    for number, frames in _find_nodes(names):
        if best_number < number <= limit and any(map(_is_users, frames)):
            best, best_number = frames, number
    return best


def _find_nodes(names: set[str]) -> Iterator[tuple[int, list[Frame]]]:
    """Yields number of the function and frames of all nodes with one of the names."""
    tensorflow_context = sys.modules.get("tensorflow.python.eager.context")
    if tensorflow_context is None:
        return
    context = tensorflow_context.context()
    for function in context.list_function_names():
        number = re.search(r"\d+$", function)
        if number is None:
            continue
        info = context.get_graph_debug_info(function)
        for name in names & set(info.name_to_trace_id):
            trace = info.traces_by_id[info.name_to_trace_id[name]]
            parts = [info.frames_by_id[part] for part in trace.frame_id]
            frames = [Frame(info.files[f.file_index], f.line, f.func) for f in parts]
            yield int(number[0]), frames


def _name_part(frames: Iterable[Frame], message: str) -> str:
    mapped = _MAPPED.search(message)
    if mapped:
        return f"a function of the data, called by `{mapped[1].removesuffix('Dataset').lower()}`"
    named = [_PARTS[frame.name] for frame in frames if frame.name in _PARTS]
    return named[-1] if named else ""


def _is_users(frame: Frame) -> bool:
    """True if a file is neither of Python, nor of an installed package, nor of this one."""
    if frame.file.startswith("<") or "__autograph_generated_file" in frame.file:
        return False
    path = pathlib.Path(frame.file)
    return not any(path.is_relative_to(root) for root in _library_roots())


@functools.cache
def _library_roots() -> tuple[pathlib.Path, ...]:
    roots = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    roots |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    roots.add(sysconfig.get_path("scripts"))  # where `quintain` itself is
    roots |= {*site.getsitepackages(), site.getusersitepackages()}
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        roots |= set(spec.submodule_search_locations or ()) if spec else set()
    return tuple(pathlib.Path(root) for root in roots)
