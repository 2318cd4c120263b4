"""Runs migrations on the connection that `store.open_store` gives."""

from alembic import context

from quintain.store import schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=schema.METADATA,
    # SQLite changes tables by copying them.
    render_as_batch=True,
)
context.run_migrations()
