"""Configs of the Model Garden: `ParamsDict`, `oneof`."""
