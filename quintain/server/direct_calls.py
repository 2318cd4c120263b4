"""Read interface of the platform, answered from the store."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from quintain import errors
from quintain.client import call_table, calls
from quintain.client.home import home as home_lib
from quintain.records import config as configs
from quintain.records import rows as kinds
from quintain.records import views
from quintain.server import tables
from quintain.server.feed import cursors, summaries

if typing.TYPE_CHECKING:
    # Who asks has opened it, or need not wait for it.
    from quintain.server import checkpoint_files, log_pages, search_view
    from quintain.store import reading
    from quintain.store import store as store_lib


class DirectCalls(calls.Calls):
    """Reads from a store, also where no master runs.

    Attributes:
        store: What is read.

    Args:
        store: What is read.
        home: Where files are.
        find_status: Returns what runs where; None where there is no master.
        find_summary: Returns the same in numbers.
        find_own: Returns what the master says of an experiment.
    """

    def __init__(
        self,
        store: store_lib.Store,
        home: home_lib.Home,
        find_status: Callable[[], views.master_status.MasterStatus] | None = None,
        find_summary: Callable[[], views.master_status.MasterSummary] | None = None,
        find_own: Callable[[int], views.master_status.ExperimentStatus | None] = lambda _: None,
    ) -> None:
        self.store = store
        self._home = home
        self._find_status, self._find_summary, self._find_own = find_status, find_summary, find_own
        self._tables = tables.WrittenTables()
        self._search_views: search_view.SearchViews | None = None

    def ask(self, call: call_table.Call, arguments: Mapping[str, Any]) -> Any:
        """Reads what the store has under the name of a call.

        Raises:
            NotFoundError: If the experiment or the trial is not there.
        """
        given = dict(arguments)
        if "state_names" in given:
            given["states"] = tuple(given.pop("state_names"))
        # Asked first: what has ended by then is stored with more.
        progress = self._find_progress(call.name)
        with self.store.reading() as session:
            if not call.name.startswith("get_"):
                _check_owner(session, given.get("experiment_id"), given.get("trial_id"))
            found = getattr(session, call.name)(**given)
        if not progress:
            return found

        def update(one: Any) -> Any:
            more = progress.get(one.id, 0.0) > one.progress
            return dataclasses.replace(one, progress=progress[one.id]) if more else one

        return [update(one) for one in found] if isinstance(found, list) else update(found)

    def _find_progress(self, name: str) -> dict[int, float]:
        """Returns what workloads that go on have added to what a call reads, by numbers."""
        if name in ("get_experiment", "list_experiments") and self._find_summary:
            return {one.experiment_id: one.progress for one in self._find_summary().experiments}
        if name in ("get_trial", "list_trials") and self._find_status:
            works = (work for one in self._find_status().experiments for work in one.work)
            return {work.trial_id: work.progress for work in works}
        return {}

    @override
    def get_status(self) -> views.master_status.MasterStatus:
        return self._find_status() if self._find_status else views.master_status.MasterStatus()

    def summarise_experiments(
        self,
        *,
        include_archived: bool,
        state_names: Sequence[kinds.states.ExperimentState],
        labels: Sequence[str],
        projects: Sequence[str],
    ) -> list[dict[str, Any]]:
        """Returns summaries of what `list_experiments` returns."""
        with self.store.reading() as session:
            found = session.list_experiments(
                include_archived=include_archived,
                states=state_names,
                labels=labels,
                projects=projects,
            )
            return summaries.build(session, found)

    @override
    def follow(self, experiment_id: int, cursor: str = "") -> views.following.Following:
        # Asked first, so that an experiment that is over then has its last trials here.
        status = self._find_own(experiment_id)
        find_summary = self._find_summary or views.master_status.MasterSummary
        summary = find_summary()
        with self.store.reading() as session:
            experiment = session.get_experiment(experiment_id)
            oldest, newest = session.get_change_bounds()
            after = cursors.parse(cursor, cursors.find_home(session))
            ids = None
            if after is not None and oldest <= after <= newest:
                ids = session.list_changed_trials(experiment_id, after)
            return views.following.Following(
                cursor=cursors.find_newest(session),
                is_whole=ids is None,
                trials=session.list_trials(experiment_id, ids=ids),
                experiment=experiment,
                status=status,
                master=summary,
            )

    @override
    def select_trials(
        self, experiment_id: int, selection: views.trial_table.Selection
    ) -> list[kinds.trial.TrialRecord]:
        return self.select_and_count(experiment_id, selection)[0]

    def select_and_count(
        self,
        experiment_id: int,
        selection: views.trial_table.Selection,
        state_names: Sequence[kinds.states.TrialState] = (),
    ) -> tuple[list[kinds.trial.TrialRecord], int]:
        """Returns what `select_trials` does, and how many there would be without a limit.

        Args:
            experiment_id: The experiment.
            selection: Which trials.
            state_names: Only those in one of these states; all if empty.
        """
        with self.store.reading() as session:
            experiment = session.get_experiment(experiment_id)
            names = tuple(state_names)
            if not (selection.where or selection.sort):
                trials = session.list_trials(
                    experiment_id, states=names, limit=selection.limit, offset=selection.offset
                )
                is_all = selection == views.trial_table.Selection()
                return trials, len(trials) if is_all else session.count_own(experiment_id, names)
            chosen = _choose_ids(tables.read_table(session, experiment), selection, names)
            ids = list(selection.cut(chosen))
            found = {one.id: one for one in session.list_trials(experiment_id, ids=ids)}
        return [found[trial_id] for trial_id in ids], len(chosen)

    def select_ids(
        self,
        experiment_id: int,
        selection: views.trial_table.Selection,
        state_names: Sequence[kinds.states.TrialState] = (),
    ) -> tuple[Sequence[int], int]:
        """Returns ids of what `select_and_count` returns, without reading whole records."""
        chosen = _choose_ids(self.get_table(experiment_id), selection, tuple(state_names))
        return selection.cut(chosen), len(chosen)

    @override
    def get_table(self, experiment_id: int) -> views.trial_table.TrialTable:
        with self.store.reading() as session:
            return tables.read_table(session, session.get_experiment(experiment_id))

    def write_table(self, experiment_id: int) -> bytes:
        """Returns what `get_table` does, as JSON; it may be one that is still true."""
        with self.store.reading() as session:
            return self._tables.write(session, session.get_experiment(experiment_id))

    def read_curves(
        self, experiment_id: int, metrics: Sequence[str], trial_ids: Sequence[int]
    ) -> bytes:
        """Returns curves of an experiment in the page's format; see `tables.read_curves`."""
        with self.store.reading() as session:
            session.get_experiment(experiment_id)
            return tables.read_curves(session, experiment_id, metrics, trial_ids)

    @override
    def list_best(self, experiment_id: int, *, top: int = 10) -> list[views.seeds.Standing]:
        with self.store.reading() as session:
            searcher = session.get_experiment(experiment_id).config.get("searcher", {})
            return views.seeds.list_standings(session.list_trials(experiment_id), searcher, top)

    @override
    def get_importances(
        self,
        experiment_id: int,
        *,
        metric_name: str = "",
        evaluator: views.importance.Evaluator = views.importance.Evaluator.AUTO,
    ) -> views.importance.Importances:
        # They take longer to import than what most commands read.
        from quintain.search import importance as importance_lib  # noqa: PLC0415
        from quintain.search import space  # noqa: PLC0415

        with self.store.reading() as session:
            experiment = session.get_experiment(experiment_id)
            table = tables.read_table(session, experiment)
        name = metric_name or experiment.config.get("searcher", {}).get("metric", "")
        found = table.metrics[tables.find_metric(name, table)]
        values = getattr(found, found.best_is or "last")
        return importance_lib.evaluate(
            table.hparams,
            [None if value is None else float(value) for value in values],
            space.Space.parse(experiment.config.get("hyperparameters", {})),
            evaluator=evaluator,
            smaller_is_better=found.best_is == "min",
        )

    def list_points(
        self, trial_id: int, metric_name: str, first: int | None, last: int | None
    ) -> dict[str, Any]:
        """Returns all points of a metric of a trial, as `batches`, `values` and `times`.

        Args:
            trial_id: The trial.
            metric_name: The metric, as `group/name`.
            first: Least number of batches; None for no bound.
            last: Largest number of batches; None for no bound.
        """
        group, name = tables.parse_metric(metric_name)
        with self.store.reading() as session:
            session.get_trial(trial_id)
            after = -1 if first is None else first - 1
            rows = session.list_metrics(trial_id, group=group, after_batches=after)
        points = [
            (row.total_batches, value, row.time)
            for row in rows
            if (value := kinds.curve.to_number(row.metrics.get(name))) is not None
            and (last is None or row.total_batches <= last)
        ]
        columns = [list(column) for column in zip(*points, strict=True)] or [[], [], []]
        return dict(zip(("batches", "values", "times"), columns, strict=True))

    def get_search(self, experiment_id: int) -> dict[str, Any]:
        """Returns what the search of an experiment knows; see `search_view`."""
        # It imports what commands that only read need not wait for.
        from quintain.server import search_view  # noqa: PLC0415

        if self._search_views is None:
            self._search_views = search_view.SearchViews()
        with self.store.reading() as session:
            return self._search_views.build(session, experiment_id)

    def page_logs(
        self, page: log_pages.Page, *, trial_id: int | None = None, experiment_id: int | None = None
    ) -> list[kinds.log.LogRow]:
        """Returns lines of a trial, or of all trials of an experiment."""
        from quintain.server import log_pages  # noqa: PLC0415 - as for the importances

        with self.store.reading() as session:
            _check_owner(session, experiment_id, trial_id)
            if trial_id is not None:
                read = functools.partial(session.list_logs, trial_id)
            else:
                read = functools.partial(session.list_experiment_logs, experiment_id or 0)
            return log_pages.read(read, page)

    @override
    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[kinds.metric.BatchRow]:
        with self.store.reading() as session:
            session.get_trial(trial_id)
            stored = session.list_batch_metrics(trial_id, after_batches=after_batches)
        return [
            kinds.metric.BatchRow(number, values)
            for total, batches in stored
            for number, values in enumerate(batches, start=total - len(batches) + 1)
        ]

    @override
    def get_checkpoint(self, uuid: str) -> kinds.checkpoint.Checkpoint:
        with self.store.reading() as session:
            try:
                return session.get_checkpoint(uuid)
            except errors.NotFoundError:
                known = session.list_checkpoints()
                found = [one for one in known if kinds.checkpoint.is_uuid_prefix(uuid, one.uuid)]
                if not found:
                    raise
        if len(found) > 1:
            raise errors.NotFoundError(
                f"checkpoint {uuid}: {len(found)} checkpoints begin like this; give more of the "
                "UUID."
            )
        return found[0]

    @override
    def fetch_checkpoint(self, uuid: str, directory: pathlib.Path) -> list[str]:
        return self.find_checkpoint_files(uuid).copy(directory)

    @override
    def fetch_model_dir(self, experiment_id: int, directory: pathlib.Path) -> list[str]:
        from quintain.server import checkpoint_files  # noqa: PLC0415 - as for the importances

        return checkpoint_files.StoredFiles.below(self.find_model_dir(experiment_id)).copy(
            directory
        )

    @override
    def get_provenance(self, experiment_id: int) -> configs.provenance.Provenance:
        found = configs.provenance.load(self.get_experiment(experiment_id).model_dir)
        if found is None:
            raise errors.NotFoundError(
                f"experiment {experiment_id}: it is not known where it comes from; it was created "
                "by a program that did not say it, or by an earlier version."
            )
        return found

    def list_spans(
        self, experiment_id: int | None = None, *, since: float | None = None
    ) -> list[kinds.launch.Span]:
        """Returns when trials held slots, in the order in which they got them.

        Args:
            experiment_id: The experiment; None for all.
            since: Only those that had not ended then; seconds since the epoch.
        """
        with self.store.reading() as session:
            _check_owner(session, experiment_id)
            return session.list_spans(experiment_id, since=since)

    def find_checkpoint_files(self, uuid: str) -> checkpoint_files.StoredFiles:
        """Returns the files of a checkpoint.

        Raises:
            CheckpointError: If its files are not there.
        """
        from quintain.server import checkpoint_files  # noqa: PLC0415 - as for the importances

        checkpoint = self.get_checkpoint(uuid)
        experiment = self.get_experiment(checkpoint.experiment_id)
        return checkpoint_files.find_checkpoint(checkpoint, experiment, self._home.checkpoints)

    def find_model_dir(self, experiment_id: int) -> pathlib.Path:
        """Returns the directory with the code of an experiment.

        Raises:
            NotFoundError: If it has none.
        """
        model_dir = self.get_experiment(experiment_id).model_dir
        if not model_dir or not pathlib.Path(model_dir).is_dir():
            raise errors.NotFoundError(
                f"experiment {experiment_id}: there is no code of its own; its entrypoint is a "
                "registered experiment."
            )
        return pathlib.Path(model_dir)

    @override
    def list_orphans(self) -> list[kinds.checkpoint.Orphan]:
        # It imports what commands that only read need not wait for.
        from quintain.master import orphans  # noqa: PLC0415

        return orphans.find(self.store, self._home.path)


def _check_owner(
    session: reading.Reader, experiment_id: int | None, trial_id: int | None = None
) -> None:
    if experiment_id is not None:
        session.get_experiment(experiment_id)
    if trial_id is not None:
        session.get_trial(trial_id)


def _choose_ids(
    table: views.trial_table.TrialTable,
    selection: views.trial_table.Selection,
    names: Sequence[kinds.states.TrialState],
) -> list[int]:
    return [
        table.columns["id"][row]
        for row in table.select(selection.where, selection.sort)
        if not names or table.columns["state"][row] in names
    ]
