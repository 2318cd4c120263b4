"""Instances asked of a model of any kind, answered in JSON lines."""

import base64
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import tensorflow_import, text_lines

if TYPE_CHECKING:
    from quintain.serving import instance_files, served_model

_MASK: Final = "mask"
"""Output of models that segment images."""


def predict(
    model_dir: str,
    texts: tuple[str, ...],
    path: str | None,
    *,
    checkpoint: str | None,
    batch_size: int,
    is_skipping: bool,
    masks: str | None = None,
) -> None:
    """Writes the outputs of instances: arguments, those of a file, or lines of standard input.

    Args:
        model_dir: Directory of a run or of an export, or a Keras model.
        texts: Instances as JSON; of a model of images, files; of one text, texts or JSON, as are
            lines then.
        path: File of instances.
        checkpoint: Checkpoint of the run.
        batch_size: Instances that the model is given at a time.
        is_skipping: Whether an instance that can't be read has a line with its error, instead of
            ending everything.
        masks: Directory to write the masks of images into.

    Raises:
        ConfigError: If there are no masks, or two of one name.
        DataError: At the first bad instance, after the answers to those before.
    """
    tensorflow_import.import_quietly()
    from quintain.files import file_io
    from quintain.serving import instance_files, served_model, token_models

    model = served_model.load_plain(model_dir, checkpoint=checkpoint)
    if masks is not None:
        if model.image_input is None or _MASK not in model.outputs:
            raise errors.ConfigError(f"--masks: {model_dir!r} does not segment images.")
        names = [_name_mask(path) for path in texts]
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise errors.ConfigError(f"--masks: two images have the mask {twice!r}. Rename one.")
        file_io.makedirs(masks)
    reads_text = isinstance(model, token_models.Tagger)  # Lines that are no JSON are texts.
    if path is not None:
        rows: Iterable[instance_files.Row] = instance_files.read(path, model.inputs, model.gaps)
    elif texts and model.image_input is not None:
        rows = instance_files.read_files(texts, model.image_input)
    elif reads_text or (model.image_input is None and _takes_text(model)):
        lines = enumerate(texts or (line.rstrip("\r\n") for line in sys.stdin), start=1)
        rows = (instance_files.Row(number, _read_text(model, one)) for number, one in lines if one)
    else:
        rows = instance_files.read_lines(texts or sys.stdin)
    num_read = num_bad = 0
    source = iter(rows)
    while window := list(itertools.islice(source, batch_size)):
        num_bad += _answer(
            model, window, batch_size, is_skipping=is_skipping, num_before=num_read, masks=masks
        )
        num_read += len(window)
    if num_bad:
        click.echo(f"{num_bad:,} of {num_read:,} instances can't be read.", err=True)


def predict_data(model_dir: str, choice: str, *, checkpoint: str | None) -> None:
    """Writes the outputs of a run's own data.

    Args:
        model_dir: Directory of a run.
        choice: `validation` or `train`.
        checkpoint: Checkpoint of the run.
    """
    tensorflow_import.import_quietly()
    from quintain.serving import signature_model

    for outputs in signature_model.predict_data(model_dir, choice, checkpoint=checkpoint):
        _write(outputs)


def _takes_text(model: "served_model.PlainModel") -> bool:
    (spec, *others) = model.inputs.values()
    is_one = spec.shape.rank in (None, 1) or spec.shape.as_list()[1:] == [1]
    return not others and spec.dtype.name == "string" and is_one


def _read_text(model: "served_model.PlainModel", text: str) -> Any:
    """Returns an argument as the JSON that it is, if this is an instance; else the text itself."""
    try:
        instance = json.loads(text)
        model.parse(instance)
    except (ValueError, RecursionError, errors.DataError):
        return text
    return instance


def _answer(
    model: "served_model.PlainModel",
    rows: "list[instance_files.Row]",
    batch_size: int,
    *,
    is_skipping: bool,
    num_before: int,
    masks: str | None,
) -> int:
    """Writes the answers to instances, and returns how many of them are bad."""
    parsed: list[Any] = []
    problems: dict[int, str] = {}
    for place, row in enumerate(rows):
        problem = row.problem
        if not problem:
            try:
                parsed.append(model.parse(row.instance))
            except errors.DataError as error:
                problem = str(error)
        if problem:
            problems[place] = f"{row.place}: {problem}"
            if not is_skipping:
                break
    answers = iter(model.run(parsed, batch_size))
    for place in range(len(parsed) + len(problems)):
        file = {"file": rows[place].file} if rows[place].file else {}
        if place not in problems:
            answer = next(answers)
            if masks is not None:
                answer = {**answer, _MASK: _write_mask(masks, rows[place].file, answer[_MASK])}
            _write(file | answer)
        elif is_skipping:
            _write(file | {"error": problems[place]})
        else:
            raise errors.DataError(
                f"{problems[place]} The {num_before + place:,} instances before it are predicted. "
                "Mend it, or give --skip-bad to leave such ones out."
            )
    return len(problems)


def _name_mask(path: str) -> str:
    from quintain.files import file_paths

    return f"{file_paths.basename(path).removesuffix(file_paths.suffix(path))}.png"


def _write_mask(directory: str, path: str, content: dict[str, str]) -> str:
    """Writes the mask of an image, and returns its path."""
    from quintain.files import atomic_write, file_paths

    target = file_paths.join(directory, _name_mask(path))
    atomic_write.write_atomically(target, base64.b64decode(content["b64"]))
    return target


def _write(content: dict[str, Any]) -> None:
    click.echo(json.dumps(content, ensure_ascii=False))


def answers_questions(model_dir: str, *, checkpoint: str | None) -> bool:
    """Returns whether a directory holds a run that answers conversations."""
    tensorflow_import.import_quietly()
    from quintain.hub import configs
    from quintain.serving import exporter, servable, trained_run

    if exporter.is_export(model_dir) or servable.find_keras_file(model_dir):
        return False
    config = trained_run.find_task_config(model_dir, checkpoint=checkpoint)
    return isinstance(config, configs.SftConfig)


def answer_questions(
    model_dir: str, texts: Sequence[str], *, checkpoint: str | None, as_json: bool
) -> None:
    """Writes the answer to each text, or to each line of standard input, on a line.

    Raises:
        DataError: At the first line that is no question, after the answers to those before.
    """
    from quintain.serving import servable

    module: Any = servable.load(model_dir, checkpoint=checkpoint).module
    lines = text_lines.number(texts) if texts else text_lines.read_lines(sys.stdin.buffer)
    for line in lines:
        if line.problem:
            raise errors.DataError(f"line {line.number}: {line.problem}.")
        found = module.chat.answer(_read_turns(line))
        if as_json:
            content = {"line": line.number, "text": found.text, "finish": found.finish_reason}
            click.echo(json.dumps(content, ensure_ascii=False))
        else:
            click.echo(" ".join(found.text.split("\n")))


def _read_turns(line: text_lines.Line) -> list[Any]:
    """Returns a conversation in JSON, or the text as a question."""
    from quintain.hub import conversations

    try:
        body = json.loads(line.text) if line.text.startswith('{"messages"') else None
    except ValueError as error:
        raise errors.DataError(f"line {line.number}: is no JSON ({error}).") from error
    turns = [{"role": "user", "content": line.text}] if body is None else body["messages"]
    return conversations.check(f"line {line.number}", turns, needs_answer=False)
