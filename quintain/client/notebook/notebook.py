"""Experiments, trials and metrics as objects for notebooks: DataFrames, plots, tables.

pandas and matplotlib are imported when they are needed, and need not be there otherwise.
"""

import dataclasses
import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from quintain import errors
from quintain.client import master_client
from quintain.client.home import home as home_lib
from quintain.client.notebook import frames
from quintain.config import provenance
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import metric
from quintain.records.rows import trial as trial_lib
from quintain.records.views import seeds, trial_table

_MAX_CHARACTERS: Final = 200


MAX_SHOWN: Final = 20
"""Rows of the table as which a list shows itself."""

MAX_CURVES: Final = 20
"""Trials of an experiment that are plotted unless others are named: the best ones."""

_ALL: Final = trial_table.Selection()


def connect(home: str | None = None) -> "Platform":
    """Returns the experiments of a home directory, whose master has to be running.

    Args:
        home: The directory; `QUINTAIN_HOME`, or `~/.quintain`, if None.

    Where commands ask the master of another machine (`quintain login`), this does, too.

    Raises:
        MasterUnreachableError: If no master runs for it.
    """
    found = home_lib.find_home(home)
    master = home_lib.find_master(found)
    if master is None:
        raise errors.MasterUnreachableError(
            f"No master runs for {found.path}; `quintain ui` or `quintain master start` starts "
            "one. Another home directory is chosen by connect(home=...) or QUINTAIN_HOME."
        )
    return Platform(master_client.MasterClient.connect(found, master.address))


class Platform:
    """The experiments of a master.

    Args:
        client: Talks to the master; ended by `close`.

    Example:
        with quintain.client.connect() as platform:
            platform.experiment(3).trials(where="accuracy > 0.9")
    """

    def __init__(self, client: master_client.MasterClient) -> None:
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._client.__exit__()

    def experiments(self, *, include_archived: bool = False) -> list["Experiment"]:
        """Returns all experiments, by number."""
        found = self._client.list_experiments(include_archived=include_archived)
        return [Experiment(self._client, record) for record in found]

    def experiment(self, experiment_id: int) -> "Experiment":
        """Returns an experiment.

        Raises:
            NotFoundError: If there is none of this number.
        """
        return Experiment(self._client, self._client.get_experiment(experiment_id))

    def trial(self, trial_id: int) -> "Trial":
        """Returns a trial.

        Raises:
            NotFoundError: If there is none of this number.
        """
        return Trial(self._client, self._client.get_trial(trial_id))

    def _repr_html_(self) -> str:
        rows = [
            (one.id, one.name, one.record.description, one.state, f"{one.record.progress:.0%}")
            for one in reversed(self.experiments())
        ]
        columns = ("experiment", "name", "description", "state", "progress")
        return _to_html(columns, rows, max_rows=MAX_SHOWN)


class Experiment:
    """A search, as it was when it was asked for; `refresh` asks again.

    Args:
        client: Talks to the master.
        record: What the store keeps of it.
    """

    def __init__(
        self, client: master_client.MasterClient, record: experiment_lib.Experiment
    ) -> None:
        self._client = client
        self._record = record

    @property
    def record(self) -> experiment_lib.Experiment:
        """All that the store keeps of it."""
        return self._record

    @property
    def id(self) -> int:
        """Its number."""
        return self._record.id

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._record.config.get("name", ""))

    @property
    def state(self) -> str:
        """Current state."""
        return self._record.state.value

    @property
    def config(self) -> dict[str, Any]:
        """Its complete config."""
        return self._record.config

    @property
    def metric(self) -> str:
        """Name of the validation metric that is searched for."""
        return str(self._searcher.get("metric", ""))

    @property
    def _searcher(self) -> dict[str, Any]:
        found = self._record.config.get("searcher")
        return found if isinstance(found, dict) else {}

    def refresh(self) -> Self:
        """Reads it again, and returns it."""
        self._record = self._client.get_experiment(self.id)
        return self

    def trials(self, where: str = "", *, sort: str = "", limit: int | None = None) -> Any:
        """Returns its trials as a DataFrame, a row for each, by number.

        Columns are those of the store, `duration`, `hparams.PATH` for each hyperparameter, and
        `GROUP/NAME.best` and `GROUP/NAME.last` for each metric.

        Args:
            where: An expression that chooses trials, such as `accuracy > 0.9 and restarts = 0`.
            sort: Names to order them by, such as `-accuracy`.
            limit: Most trials.

        Raises:
            ConfigError: If an expression or a name is wrong.
        """
        pandas = frames.load("pandas")
        table = self._client.get_table(self.id)
        named = table.name_all()
        names = [name for name in (*table.columns, trial_table.DURATION) if name in named]
        columns = {name: list(named[name]) for name in names}
        for name in ("best_metric", "latest_metric"):
            columns[name] = frames.to_numbers(columns[name])
        for path, values in table.hparams.items():
            columns[f"hparams.{path}"] = list(values)
        for name, found in table.metrics.items():
            if found.best_is:
                columns[f"{name}.best"] = frames.to_numbers(getattr(found, found.best_is))
            columns[f"{name}.last"] = frames.to_numbers(found.last)
        frame = pandas.DataFrame(columns).set_index("id")
        for name in ("start_time", "end_time"):
            frame[name] = pandas.to_datetime(frame[name], unit="s", utc=True)
        selection = trial_table.Selection(where=where, sort=sort, limit=limit)
        if selection == _ALL:
            return frame
        chosen = [trial.id for trial in self._client.select_trials(self.id, selection)]
        # A trial may have come between the two answers.
        return frame.loc[[trial_id for trial_id in chosen if trial_id in frame.index]]

    def trial(self, trial_id: int) -> "Trial":
        """Returns one of its trials.

        Raises:
            NotFoundError: If it has none of this number.
        """
        record = self._client.get_trial(trial_id)
        if record.experiment_id != self.id:
            raise errors.NotFoundError(
                f"trial {trial_id}: belongs to experiment {record.experiment_id}, not to {self.id}."
            )
        return Trial(self._client, record)

    def best_trials(self, num_trials: int = MAX_CURVES) -> list["Trial"]:
        """Returns the trials with the best searched metric, the best first.

        Where finalists were trained with further seeds, these decide; it is one trial of each.
        """
        trials = [
            trial
            for trial in self._client.list_trials(self.id)
            if trial.best_metric is not None and math.isfinite(trial.best_metric)
        ]
        ranked = seeds.rank_settings(trials, self._searcher)
        return [Trial(self._client, setting.trials[0]) for setting in ranked[:num_trials]]

    def standings(self, num_settings: int = MAX_CURVES) -> Any:
        """Returns the best settings as a DataFrame: mean over seeds, its 95 % interval, and lead.

        Args:
            num_settings: How many.
        """
        rows = [
            dataclasses.asdict(one) for one in self._client.list_best(self.id, top=num_settings)
        ]
        for row in rows:
            row["lead"] = row["lead"] and row["lead"]["text"]
        return frames.load("pandas").DataFrame(rows)

    def metrics(self, trial_ids: Iterable[int] | None = None) -> Any:
        """Returns the metrics of its trials as a DataFrame, a row for each report.

        Args:
            trial_ids: Only those of these trials; of all if None.
        """
        chosen = (
            [trial.id for trial in self._client.list_trials(self.id)]
            if trial_ids is None
            else list(trial_ids)
        )
        return frames.to_frame(row for each in chosen for row in self._client.list_metrics(each))

    def plot(
        self,
        metric_name: str | None = None,
        *,
        trial_ids: Sequence[int] | None = None,
        ax: Any = None,
    ) -> Any:
        """Draws the curves of trials with matplotlib, and returns the axes.

        Args:
            metric_name: `GROUP/NAME`, or the name of a validation metric; the searched one if None.
            trial_ids: These trials; the best ones if None.
            ax: Axes to draw into; new ones if None.

        Raises:
            ConfigError: If no trial has such a metric.
        """
        trials = (
            self.best_trials()
            if trial_ids is None
            else [self.trial(trial_id) for trial_id in trial_ids]
        )
        return frames.plot(
            [(one.id, one.rows()) for one in trials],
            metric_name or self.metric,
            ax,
            title=self._title,
        )

    @property
    def _title(self) -> str:
        """Number, name and description."""
        about = ", ".join(filter(None, (self.name, self._record.description)))
        return f"{self.id}: {about}" if about else str(self.id)

    def __repr__(self) -> str:
        return f"<Experiment {self._title} ({self.state})>"

    def _repr_html_(self) -> str:
        names = ["trial", "state", "batches", self.metric or "metric"]
        best = self.best_trials(MAX_SHOWN)
        rows = [
            (one.id, one.state, one.record.total_batches, one.record.best_metric, one.hparams)
            for one in best
        ]
        num_trials = len(self._client.list_trials(self.id))
        caption = (
            f"Experiment {self._title}: {self.state}, {self._record.progress:.0%}; "
            f"{num_trials} trials, the best first"
        )
        for leader in self._client.list_best(self.id, top=1):
            if leader.lead is not None:
                caption += (
                    f". Trial {leader.trial_ids[0]} is {leader.lead.text} (than trial "
                    f"{leader.lead.trial_id})"
                )
        return _to_html((*names, "hyperparameters"), rows, caption=caption)


class Trial:
    """A point of a search, as it was when it was asked for; `refresh` asks again.

    Args:
        client: Talks to the master.
        record: What the store keeps of it.
    """

    def __init__(self, client: master_client.MasterClient, record: trial_lib.TrialRecord) -> None:
        self._client = client
        self._record = record

    @property
    def record(self) -> trial_lib.TrialRecord:
        """All that the store keeps of it."""
        return self._record

    @property
    def id(self) -> int:
        """Its number."""
        return self._record.id

    @property
    def state(self) -> str:
        """What it is doing."""
        return self._record.state.value

    @property
    def hparams(self) -> dict[str, Any]:
        """Its hyperparameters, by dotted path."""
        return provenance.flatten(self._record.hparams)

    def refresh(self) -> Self:
        """Reads it again, and returns it."""
        self._record = self._client.get_trial(self.id)
        return self

    def metrics(self) -> Any:
        """Returns its metrics as a DataFrame, a row for each report."""
        return frames.to_frame(self.rows())

    def rows(self) -> list[metric.MetricRow]:
        """Returns its metrics as the store has them."""
        return self._client.list_metrics(self.id)

    def plot(self, metric_name: str | None = None, *, ax: Any = None) -> Any:
        """Draws a curve with matplotlib, and returns the axes.

        Args:
            metric_name: `GROUP/NAME`, or the name of a validation metric; the searched one if None.
            ax: Axes to draw into; new ones if None.

        Raises:
            ConfigError: If it has no such metric.
        """
        record = self._client.get_experiment(self._record.experiment_id)
        experiment = Experiment(self._client, record)
        return frames.plot(
            [(self.id, self.rows())], metric_name or experiment.metric, ax, title=f"trial {self.id}"
        )

    def __repr__(self) -> str:
        return f"<Trial {self.id} of experiment {self._record.experiment_id} ({self.state})>"

    def _repr_html_(self) -> str:
        record = self._record
        rows: list[tuple[str, object]] = [
            ("state", self.state),
            ("batches", record.total_batches),
            ("best metric", record.best_metric),
            ("latest metric", record.latest_metric),
            ("restarts", record.restarts),
            ("reason", record.reason),
            *self.hparams.items(),
        ]
        caption = f"Trial {self.id} of experiment {record.experiment_id}"
        return _to_html(("", "value"), rows, caption=caption)


def _to_html(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    caption: str = "",
    max_rows: int | None = None,
) -> str:
    """Returns a table.

    Args:
        columns: Names of the columns.
        rows: A value for each of them.
        caption: Text above it.
        max_rows: Rows that are shown, with a line that says how many there are. All if None.

    Example:
        >>> _to_html(["a"], [["<b>"]]).partition("<tbody>")[2]
        '<tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    shown = rows if max_rows is None else rows[:max_rows]
    head = "".join(f"<th>{_to_text(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_to_text(value)}</td>' for value in row)}</tr>" for row in shown
    )
    above = f"<caption>{_to_text(caption)}</caption>" if caption else ""
    table = f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table if len(shown) == len(rows) else f"{table}<p>{len(shown)} of {len(rows)}.</p>"


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, dict):
        text = ", ".join(f"{name}={part}" for name, part in value.items())
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, default=str)
    return html.escape(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")
