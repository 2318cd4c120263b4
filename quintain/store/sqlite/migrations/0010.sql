CREATE TABLE audit (
    id INTEGER NOT NULL,
    time DOUBLE NOT NULL,
    user_name TEXT NOT NULL,
    address TEXT NOT NULL,
    call TEXT NOT NULL,
    experiment_id INTEGER,
    arguments TEXT NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are never changed'); END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are never deleted'); END;

CREATE TABLE grants (
    user_name TEXT NOT NULL,
    project TEXT NOT NULL,
    role TEXT NOT NULL,
    CONSTRAINT pk_grants PRIMARY KEY (user_name, project)
);
