CREATE TABLE audit (
    id BIGINT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    user_name TEXT NOT NULL,
    address TEXT NOT NULL,
    call TEXT NOT NULL,
    experiment_id BIGINT,
    arguments TEXT NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE FUNCTION refuse_audit_change() RETURNS trigger AS 'BEGIN RAISE EXCEPTION ''rows of audit are never changed or deleted''; END' LANGUAGE plpgsql;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();

CREATE TABLE grants (
    user_name TEXT NOT NULL,
    project TEXT NOT NULL,
    role TEXT NOT NULL,
    CONSTRAINT pk_grants PRIMARY KEY (user_name, project)
);
