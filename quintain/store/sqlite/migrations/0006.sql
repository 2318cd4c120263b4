CREATE TABLE last_ids (
    table_name TEXT NOT NULL,
    last_id BIGINT NOT NULL,
    CONSTRAINT pk_last_ids PRIMARY KEY (table_name)
);

CREATE TABLE holder (
    mark TEXT NOT NULL,
    CONSTRAINT pk_holder PRIMARY KEY (mark)
);
