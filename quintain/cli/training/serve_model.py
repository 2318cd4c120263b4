"""`quintain serve-model`: answers texts, or whatever else a model takes, over HTTP."""

import dataclasses
import json
from typing import Any, Final

import click

from quintain.cli import logs, options, tensorflow_import
from quintain.cli.lazy_group import FlagCommand
from quintain.cli.training import registered_models, staged_runs

_MAX_SHOWN: Final = 400
"""Longest example of a request that is printed."""


@click.command(cls=FlagCommand)
@registered_models.model_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Further name under which clients ask, such as that of a proxy; may be given several "
    "times.",
)
@click.option(
    "--max-batch-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Most texts, or instances, that the model is given at a time.",
)
@click.option(
    "--max-delay-ms",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="How long a text waits for others to share a batch with.",
)
@click.option(
    "--max-queue",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Most texts that wait; more are refused with status 503.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds after which a request is given up with status 504.",
)
@options.search_options
@click.option("--max-source-length", type=click.IntRange(min=1), help="Most tokens of a text.")
@options.precision_option
@options.export_option
@options.log_option
@registered_models.reads
def serve_model(
    model_dir: str,
    checkpoint: str | None,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    max_batch_size: int,
    max_delay_ms: float,
    max_queue: int,
    timeout: float,
    alsologtostderr: bool,
    own_options: tuple[str, ...],
    **settings: Any,
) -> None:
    r"""Answer texts, or whatever else a model takes, over HTTP; requests share batches.

    \b
    quintain serve-model --model-dir=runs/local
    curl localhost:8501/translate -d '{"texts": ["the third of May"]}'
    quintain serve-model --model-dir=runs/mine
    curl localhost:8501/predict -d '{"instances": [{"height": 1.5, "width": 2.0}]}'
    quintain serve-model --model=digits@champion

    A model of sentences answers /predict. GET / says what an instance is. Others: /health,
    /metrics (Prometheus), /docs, and /v1/models/default:predict as TensorFlow Serving has it.
    Ctrl-C, or SIGTERM, answers what waits and ends; a second one ends at once.
    """
    logs.set_up(is_verbose=alsologtostderr)
    tensorflow_import.import_quietly()
    from quintain.serving import app, served_model
    from quintain.web import http_server, request_checks

    hosts = [request_checks.parse_host(name) for name in allowed_hosts]
    given = options.parse_export_options(settings, own_options)
    name = staged_runs.name(model_dir)
    listener = http_server.listen(port, host=host)
    try:
        model = served_model.load(
            model_dir, checkpoint=checkpoint, batch_size=max_batch_size, **given
        )
        if name != model_dir:
            model = dataclasses.replace(model, details={**model.details, "model": name})
        model.warm_up()
    except BaseException:
        listener.close()
        raise
    served = app.build_app(
        model,
        max_batch_size=max_batch_size,
        max_delay_secs=max_delay_ms / 1000,
        max_queue=max_queue,
        timeout_secs=timeout,
        hosts=[*hosts, http_server.get_url(host, listener).partition("://")[2].lower()],
    )
    url = http_server.get_url(host, listener)
    if http_server.is_open(listener):
        click.echo(
            f"--host={host}: whoever reaches this machine may use the model; nothing asks who they "
            "are.",
            err=True,
        )
    click.echo(f"Serving {name} at {url}{model.path} (Ctrl-C ends). Try:", err=True)
    body = json.dumps({model.field: [model.example]})
    if len(body) > _MAX_SHOWN:
        body = "@instances.json"
        click.echo(f"  curl {url}/        (shows the schema of an instance)", err=True)
    click.echo(f"  curl {url}{model.path} -d '{body}'", err=True)
    http_server.serve_until_signal(served, listener, grace_secs=timeout)
    click.echo("Stopped.", err=True)
