"""Import that registers all experiments and tasks of this package."""

import quintain.registered_experiments  # noqa: F401
from quintain.garden.utils.testing import mock_task  # noqa: F401
from quintain.nlp import tasks as tasks
