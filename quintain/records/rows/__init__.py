"""Records of the store; as attributes of this package its modules load when first used."""

from typing import TYPE_CHECKING

from quintain import lazy_modules

if TYPE_CHECKING:
    from quintain.records.rows import change as change
    from quintain.records.rows import checkpoint as checkpoint
    from quintain.records.rows import curve as curve
    from quintain.records.rows import deletion as deletion
    from quintain.records.rows import experiment as experiment
    from quintain.records.rows import launch as launch
    from quintain.records.rows import log as log
    from quintain.records.rows import metric as metric
    from quintain.records.rows import node as node
    from quintain.records.rows import registered_model as registered_model
    from quintain.records.rows import sent_metrics as sent_metrics
    from quintain.records.rows import states as states
    from quintain.records.rows import trial as trial
else:
    __getattr__, __dir__ = lazy_modules.attach(
        __name__,
        (
            "change",
            "checkpoint",
            "curve",
            "deletion",
            "experiment",
            "launch",
            "log",
            "metric",
            "node",
            "registered_model",
            "sent_metrics",
            "states",
            "trial",
        ),
    )
