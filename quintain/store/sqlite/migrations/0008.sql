CREATE INDEX ix_trials_experiment_id_state_id_best_metric ON trials (experiment_id, state, id, best_metric);
