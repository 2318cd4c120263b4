"""Tables and filters over records; as attributes of this package they load when first used."""

from typing import TYPE_CHECKING

from quintain import lazy_modules

if TYPE_CHECKING:
    from quintain.records.views import following as following
    from quintain.records.views import importance as importance
    from quintain.records.views import master_status as master_status
    from quintain.records.views import seeds as seeds
    from quintain.records.views import trial_table as trial_table
else:
    __getattr__, __dir__ = lazy_modules.attach(
        __name__, ("following", "importance", "master_status", "seeds", "trial_table")
    )
