"""`quintain predict`: classifies texts, or asks any other model about instances."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from quintain import errors
from quintain.cli import line_windows, logs, options, tensorflow_import, text_lines
from quintain.cli.display import line_progress
from quintain.cli.lazy_group import FlagCommand
from quintain.cli.training import instance_lines, registered_models
from quintain.process import start_up

if TYPE_CHECKING:
    from quintain.serving import classifier, retriever

    _Answer = classifier.Prediction | list[retriever.Neighbour] | None


@click.command(cls=FlagCommand)
@click.argument("text", nargs=-1)
@registered_models.model_options
@click.option(
    "--input",
    "path",
    metavar="FILE",
    help="Instances to predict: .jsonl, .csv, .npz or .npy. Standard input is JSON lines.",
)
@click.option(
    "--data", type=options.Choice(["validation", "train"]), help="Predict the run's own data."
)
@click.option(
    "--candidates",
    metavar="FILE",
    help="Find the nearest of this file's lines, by the vectors of a dual encoder.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Candidates for each text, the nearest first.",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=2_048,
    show_default=True,
    help="Lines read ahead; similar ones among them are predicted together.",
)
@click.option(
    "--masks", metavar="DIR", help="Write masks of images here, as PNG files with their names."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--skip-bad", is_flag=True, help="Print an empty line for a line that can't be read.")
@options.log_option
@registered_models.reads
def predict(
    text: tuple[str, ...],
    model_dir: str,
    checkpoint: str | None,
    path: str | None,
    data: str | None,
    candidates: str | None,
    top: int,
    batch_size: int,
    window: int,
    masks: str | None,
    as_json: bool,
    skip_bad: bool,
    alsologtostderr: bool,
) -> None:
    r"""Predict TEXTs, or each line of standard input, one line each.

    \b
    quintain predict --model-dir=runs/languages "Wo ist der Bahnhof?"
    quintain predict --model-dir=runs/languages --json < texts.txt
    quintain predict --model-dir=runs/mine --input=examples.csv
    quintain predict --model-dir=runs/mine --data=validation
    quintain predict --model-dir=runs/pairs --candidates=answers.txt --top=3 < questions.txt
    quintain predict --model-dir=runs/shapes photo.png photo.jpg

    A model of texts is given texts, one of images their files; any other one instances, such as
    {"height": 1.5} in JSON lines. These two answer in JSON lines with the outputs by name.
    `quintain serve-model` says at GET / what an instance is.

    A line of the output is the class and its probability, or the number of a regression. Of a model
    of pairs of texts, a line has both, with a tab between. With --candidates it has the nearest
    texts, each with its score.

    A model that answers conversations gives the answer to each TEXT; in JSON lines a line may also
    be a conversation, {"messages": [...]}.

    An empty line is a text like any other. A line that is not UTF-8, or of the wrong number of
    texts, ends the prediction after the lines before it; with --skip-bad its line of the output is
    empty, and it is reported.
    """
    logs.set_up(is_verbose=alsologtostderr)
    _check_given(text, path, data, candidates, masks)
    if data is not None:
        instance_lines.predict_data(model_dir, data, checkpoint=checkpoint)
        return
    files = path or masks
    model = _load(model_dir, candidates, files, checkpoint)
    if model is None:
        if not files and instance_lines.answers_questions(model_dir, checkpoint=checkpoint):
            instance_lines.answer_questions(model_dir, text, checkpoint=checkpoint, as_json=as_json)
            return
        instance_lines.predict(
            model_dir,
            text,
            path,
            checkpoint=checkpoint,
            batch_size=batch_size,
            is_skipping=skip_bad,
            masks=masks,
        )
        return
    num_fields = model.num_fields

    def answer(lines: line_windows.Lines) -> "Sequence[_Answer]":
        rows = [_split(line, num_fields) for line in lines]
        if candidates is None:
            return model.classify(rows, batch_size)
        return model.find(rows, top=top, batch_size=batch_size)

    lines = line_windows.LineWindows["_Answer"](
        answer=answer,
        check=lambda lines: [_check_fields(line, num_fields) for line in lines],
        window=window,
        is_skipping=skip_bad,
        verb="predicted",
        noun="predictions",
        filler=None,
    )
    source = text_lines.number(text) if text else text_lines.read_lines(sys.stdin.buffer)
    with line_progress.LineProgress(None if text else line_progress.measure(sys.stdin)) as progress:
        for line, prediction in lines.run(source):
            click.echo(_describe(line, prediction) if as_json else _format(prediction))
            progress.show(line)
    lines.report()


def _check_given(
    text: tuple[str, ...],
    path: str | None,
    data: str | None,
    candidates: str | None,
    masks: str | None,
) -> None:
    """Refuses options that do not go together."""
    given = [
        name for name, value in {"TEXT": text, "--input": path, "--data": data}.items() if value
    ]
    if len(given) > 1:
        raise errors.ConfigError(f"{' and '.join(given)}: give one of them.")
    if not given and sys.stdin.isatty():
        raise errors.ConfigError(
            "nothing to predict; give texts as arguments, lines on standard input, --input=FILE or "
            "--data=validation."
        )
    if candidates is not None and (path or data):
        raise errors.ConfigError(f"--candidates and {given[0]}: give texts, or lines of them.")
    if masks is not None and (candidates is not None or not text):
        raise errors.ConfigError("--masks: needs images; give their files as arguments.")


def _load(model_dir: str, candidates: str | None, files: str | None, checkpoint: str | None) -> Any:
    """Returns the classifier or retriever of texts; None if instances are asked of a signature."""
    tensorflow_import.import_quietly()
    with start_up.without_collecting():
        from quintain.serving import classifier, retriever

    if candidates is not None:
        return retriever.Retriever.load(model_dir, candidates, checkpoint=checkpoint)
    if files or not classifier.Classifier.fits(model_dir, checkpoint=checkpoint):
        return None
    return classifier.Classifier.load(model_dir, checkpoint=checkpoint)


def _check_fields(line: text_lines.Line, num_fields: int) -> text_lines.Line:
    """Returns a line, marked as bad if it has another number of texts."""
    found = len(_split(line, num_fields))
    if line.problem or found == num_fields:
        return line
    problem = f"has {found} fields, expected {num_fields} with tabs between"
    return text_lines.Line(line.number, line.text, problem)


def _split(line: text_lines.Line, num_fields: int) -> list[str]:
    return [line.text] if num_fields == 1 else line.text.split("\t")


def _format(prediction: "_Answer") -> str:
    """Returns a prediction as a line; an empty one for a bad line."""
    if prediction is None:
        return ""
    if isinstance(prediction, list):
        return "\t".join(f"{one.text}\t{one.score:.4f}" for one in prediction)
    if prediction.label is None:
        return f"{prediction.score:.6g}"
    return f"{prediction.label}\t{prediction.score:.4f}"


def _describe(line: text_lines.Line, prediction: "_Answer") -> str:
    """Returns a prediction as JSON."""
    content: dict[str, object] = {"line": line.number}
    if prediction is None:
        content["error"] = line.problem
    elif isinstance(prediction, list):
        content["neighbours"] = [dataclasses.asdict(one) for one in prediction]
    elif prediction.label is None:
        content["score"] = prediction.score
    else:
        content.update(dataclasses.asdict(prediction))
    return json.dumps(content, ensure_ascii=False)
