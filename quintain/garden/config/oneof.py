"""Path of the Model Garden for `OneOfConfig`."""

from quintain.config.one_of import OneOfConfig as OneOfConfig
