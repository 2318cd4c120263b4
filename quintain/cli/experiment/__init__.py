"""`quintain experiment`: searches over hyperparameters."""
