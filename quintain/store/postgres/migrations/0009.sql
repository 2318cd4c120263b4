CREATE TABLE model_versions (
    id BIGINT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    path TEXT NOT NULL,
    machine TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    files TEXT NOT NULL,
    config TEXT NOT NULL,
    metrics TEXT NOT NULL,
    origin TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    trial_id BIGINT,
    experiment_id BIGINT,
    note TEXT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    is_deleted BOOLEAN NOT NULL,
    CONSTRAINT pk_model_versions PRIMARY KEY (id),
    CONSTRAINT uq_model_versions_name_version UNIQUE (name, version)
);

CREATE TABLE model_aliases (
    id BIGINT NOT NULL,
    name TEXT NOT NULL,
    alias TEXT NOT NULL,
    version BIGINT NOT NULL,
    reason TEXT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_model_aliases PRIMARY KEY (id),
    CONSTRAINT fk_model_aliases_version FOREIGN KEY(name, version) REFERENCES model_versions (name, version)
);
