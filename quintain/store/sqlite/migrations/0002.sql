CREATE TABLE home (
    home_id VARCHAR(64) NOT NULL,
    CONSTRAINT pk_home PRIMARY KEY (home_id)
);

CREATE TABLE deletions (
    id INTEGER NOT NULL,
    kind VARCHAR(32) NOT NULL,
    root TEXT NOT NULL,
    name TEXT NOT NULL,
    experiment_id INTEGER NOT NULL,
    time DOUBLE NOT NULL,
    CONSTRAINT pk_deletions PRIMARY KEY (id)
);
