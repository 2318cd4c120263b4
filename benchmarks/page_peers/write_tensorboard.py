"""Writes the trials of a store for TensorBoard: `write_tensorboard.py DATABASE TARGET`."""

import json
import sqlite3
import sys
import time

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import summary_v2
from tensorboard.summary.writer import event_file_writer


def main() -> None:
    """Writes an event file for each trial: its hyperparameters, and its last accuracy."""
    source, target = sys.argv[1:]
    database = sqlite3.connect(source)
    rows = database.execute("SELECT id, hparams, latest_metric FROM trials ORDER BY id").fetchall()
    for number, hparams, value in rows:
        writer = event_file_writer.EventFileWriter(f"{target}/{number}", max_queue_size=4)
        now = time.time()
        summaries = [
            summary_v2.hparams_pb(json.loads(hparams), trial_id=str(number)),
            summary_pb2.Summary(
                value=[summary_pb2.Summary.Value(tag="accuracy", simple_value=value)]
            ),
        ]
        for summary in summaries:
            writer.add_event(event_pb2.Event(wall_time=now, step=0, summary=summary))
        writer.close()


if __name__ == "__main__":
    main()
