"""The module in which programs written for the reference look for `OneOfConfig`."""

from quintain.config.one_of import OneOfConfig as OneOfConfig
