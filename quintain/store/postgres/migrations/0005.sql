CREATE TABLE sent_metrics (
    trial_id INTEGER NOT NULL,
    logger VARCHAR(128) NOT NULL,
    cursor TEXT NOT NULL,
    is_closed BOOLEAN NOT NULL,
    CONSTRAINT pk_sent_metrics PRIMARY KEY (trial_id, logger),
    CONSTRAINT fk_sent_metrics_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);
