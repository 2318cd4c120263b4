CREATE TABLE changes (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    kind VARCHAR(32) NOT NULL,
    experiment_id INTEGER NOT NULL,
    trial_id INTEGER,
    ref TEXT
);

CREATE TABLE curves (
    experiment_id INTEGER NOT NULL,
    trial_id INTEGER NOT NULL,
    "group" VARCHAR(32) NOT NULL,
    name TEXT NOT NULL,
    num_points BIGINT NOT NULL,
    last DOUBLE NOT NULL,
    min DOUBLE NOT NULL,
    max DOUBLE NOT NULL,
    last_batches BIGINT NOT NULL,
    points BLOB NOT NULL,
    CONSTRAINT pk_curves PRIMARY KEY (trial_id, "group", name),
    CONSTRAINT fk_curves_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE,
    CONSTRAINT fk_curves_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);

CREATE INDEX ix_curves_experiment_id_trial_id ON curves (experiment_id, trial_id);

CREATE TABLE spans (
    launch_id VARCHAR(64) NOT NULL,
    trial_id INTEGER NOT NULL,
    experiment_id INTEGER NOT NULL,
    slots TEXT NOT NULL,
    start_time DOUBLE NOT NULL,
    end_time DOUBLE,
    CONSTRAINT pk_spans PRIMARY KEY (launch_id),
    CONSTRAINT fk_spans_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE,
    CONSTRAINT fk_spans_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);

CREATE INDEX ix_spans_experiment_id ON spans (experiment_id);

CREATE INDEX ix_spans_trial_id ON spans (trial_id);

INSERT INTO spans (launch_id, trial_id, experiment_id, slots, start_time) SELECT launch_id, trial_id, experiment_id, slots, start_time FROM runs;
