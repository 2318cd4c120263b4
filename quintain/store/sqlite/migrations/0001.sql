CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE experiments (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    state VARCHAR(32) NOT NULL,
    config TEXT NOT NULL,
    original_config TEXT NOT NULL,
    model_dir TEXT NOT NULL,
    description TEXT NOT NULL,
    labels TEXT NOT NULL,
    progress DOUBLE NOT NULL,
    start_time DOUBLE NOT NULL,
    end_time DOUBLE,
    is_archived BOOLEAN NOT NULL,
    parent_id INTEGER,
    reason TEXT NOT NULL
);

CREATE TABLE events (
    id INTEGER NOT NULL,
    experiment_id INTEGER NOT NULL,
    event TEXT NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (id),
    CONSTRAINT fk_events_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);

CREATE INDEX ix_events_experiment_id ON events (experiment_id);

CREATE TABLE trials (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    experiment_id INTEGER NOT NULL,
    request_id VARCHAR(64) NOT NULL,
    state VARCHAR(32) NOT NULL,
    hparams TEXT NOT NULL,
    seed BIGINT NOT NULL,
    parent_trial_id INTEGER,
    restarts INTEGER NOT NULL,
    total_batches BIGINT NOT NULL,
    latest_checkpoint VARCHAR(64),
    best_metric DOUBLE,
    latest_metric DOUBLE,
    progress DOUBLE NOT NULL,
    start_time DOUBLE,
    end_time DOUBLE,
    reason TEXT NOT NULL,
    CONSTRAINT fk_trials_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);

CREATE INDEX ix_trials_experiment_id ON trials (experiment_id);

CREATE TABLE batch_metrics (
    id INTEGER NOT NULL,
    trial_id INTEGER NOT NULL,
    total_batches BIGINT NOT NULL,
    batch_metrics TEXT NOT NULL,
    CONSTRAINT pk_batch_metrics PRIMARY KEY (id),
    CONSTRAINT fk_batch_metrics_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);

CREATE INDEX ix_batch_metrics_trial_id_total_batches ON batch_metrics (trial_id, total_batches);

CREATE TABLE checkpoints (
    uuid VARCHAR(64) NOT NULL,
    trial_id INTEGER NOT NULL,
    experiment_id INTEGER NOT NULL,
    total_batches BIGINT NOT NULL,
    state VARCHAR(32) NOT NULL,
    files TEXT NOT NULL,
    metric DOUBLE,
    metadata TEXT NOT NULL,
    time DOUBLE NOT NULL,
    CONSTRAINT pk_checkpoints PRIMARY KEY (uuid),
    CONSTRAINT fk_checkpoints_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE,
    CONSTRAINT fk_checkpoints_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);

CREATE INDEX ix_checkpoints_experiment_id ON checkpoints (experiment_id);

CREATE INDEX ix_checkpoints_trial_id ON checkpoints (trial_id);

CREATE TABLE logs (
    id INTEGER NOT NULL,
    trial_id INTEGER NOT NULL,
    time DOUBLE NOT NULL,
    source VARCHAR(32) NOT NULL,
    text TEXT NOT NULL,
    CONSTRAINT pk_logs PRIMARY KEY (id),
    CONSTRAINT fk_logs_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);

CREATE INDEX ix_logs_trial_id_id ON logs (trial_id, id);

CREATE TABLE metrics (
    id INTEGER NOT NULL,
    trial_id INTEGER NOT NULL,
    "group" VARCHAR(32) NOT NULL,
    total_batches BIGINT NOT NULL,
    metrics TEXT NOT NULL,
    num_inputs BIGINT NOT NULL,
    time DOUBLE NOT NULL,
    CONSTRAINT pk_metrics PRIMARY KEY (id),
    CONSTRAINT fk_metrics_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);

CREATE INDEX ix_metrics_trial_id_total_batches ON metrics (trial_id, total_batches);

CREATE TABLE runs (
    launch_id VARCHAR(64) NOT NULL,
    trial_id INTEGER NOT NULL,
    experiment_id INTEGER NOT NULL,
    slots TEXT NOT NULL,
    state VARCHAR(32) NOT NULL,
    identity TEXT,
    start_time DOUBLE NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (launch_id),
    CONSTRAINT fk_runs_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE,
    CONSTRAINT fk_runs_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);

CREATE INDEX ix_runs_experiment_id ON runs (experiment_id);

CREATE INDEX ix_runs_trial_id ON runs (trial_id);
