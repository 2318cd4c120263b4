CREATE TABLE last_ids (
    table_name TEXT NOT NULL,
    last_id BIGINT NOT NULL,
    CONSTRAINT pk_last_ids PRIMARY KEY (table_name)
);

CREATE TABLE holder (
    mark TEXT NOT NULL,
    CONSTRAINT pk_holder PRIMARY KEY (mark)
);

INSERT INTO last_ids (table_name, last_id) SELECT 'batch_metrics', last_value FROM batch_metrics_id_seq WHERE is_called;

ALTER TABLE batch_metrics ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE batch_metrics_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'changes', last_value FROM changes_id_seq WHERE is_called;

ALTER TABLE changes ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE changes_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'deletions', last_value FROM deletions_id_seq WHERE is_called;

ALTER TABLE deletions ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE deletions_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'events', last_value FROM events_id_seq WHERE is_called;

ALTER TABLE events ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE events_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'experiments', last_value FROM experiments_id_seq WHERE is_called;

ALTER TABLE experiments ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE experiments_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'logs', last_value FROM logs_id_seq WHERE is_called;

ALTER TABLE logs ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE logs_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'metrics', last_value FROM metrics_id_seq WHERE is_called;

ALTER TABLE metrics ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE metrics_id_seq;

INSERT INTO last_ids (table_name, last_id) SELECT 'trials', last_value FROM trials_id_seq WHERE is_called;

ALTER TABLE trials ALTER COLUMN id DROP DEFAULT;

DROP SEQUENCE trials_id_seq;

ALTER TABLE batch_metrics ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "trial_id" TYPE BIGINT;

ALTER TABLE changes ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT, ALTER COLUMN "trial_id" TYPE BIGINT;

ALTER TABLE checkpoints ALTER COLUMN "trial_id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT;

ALTER TABLE curves ALTER COLUMN "experiment_id" TYPE BIGINT, ALTER COLUMN "trial_id" TYPE BIGINT;

ALTER TABLE deletions ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT;

ALTER TABLE events ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT;

ALTER TABLE experiments ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "parent_id" TYPE BIGINT;

ALTER TABLE logs ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "trial_id" TYPE BIGINT;

ALTER TABLE metrics ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "trial_id" TYPE BIGINT;

ALTER TABLE runs ALTER COLUMN "trial_id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT;

ALTER TABLE sent_metrics ALTER COLUMN "trial_id" TYPE BIGINT;

ALTER TABLE spans ALTER COLUMN "trial_id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT;

ALTER TABLE trials ALTER COLUMN "id" TYPE BIGINT, ALTER COLUMN "experiment_id" TYPE BIGINT, ALTER COLUMN "parent_trial_id" TYPE BIGINT, ALTER COLUMN "restarts" TYPE BIGINT;

ALTER TABLE changes ALTER COLUMN "kind" TYPE TEXT;

ALTER TABLE checkpoints ALTER COLUMN "uuid" TYPE TEXT, ALTER COLUMN "state" TYPE TEXT;

ALTER TABLE curves ALTER COLUMN "group" TYPE TEXT;

ALTER TABLE deletions ALTER COLUMN "kind" TYPE TEXT;

ALTER TABLE experiments ALTER COLUMN "state" TYPE TEXT;

ALTER TABLE home ALTER COLUMN "home_id" TYPE TEXT;

ALTER TABLE logs ALTER COLUMN "source" TYPE TEXT;

ALTER TABLE metrics ALTER COLUMN "group" TYPE TEXT;

ALTER TABLE runs ALTER COLUMN "launch_id" TYPE TEXT, ALTER COLUMN "state" TYPE TEXT;

ALTER TABLE sent_metrics ALTER COLUMN "logger" TYPE TEXT;

ALTER TABLE spans ALTER COLUMN "launch_id" TYPE TEXT;

ALTER TABLE trials ALTER COLUMN "request_id" TYPE TEXT, ALTER COLUMN "state" TYPE TEXT, ALTER COLUMN "latest_checkpoint" TYPE TEXT;
