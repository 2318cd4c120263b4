"""The store of a master: which one it is, and that no other master has it."""

import contextlib
from collections.abc import Callable, Iterator

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import home_database
from quintain.master.cleanup import home_identity
from quintain.store import store as store_lib


@contextlib.contextmanager
def open_own(
    home: home_lib.Home,
    database: home_database.Database,
    on_loss: Callable[[str], None],
    *,
    accept_new_database: bool,
) -> Iterator[store_lib.Store]:
    """Gives the store of a home's master, who is its only one.

    Processes that are started meanwhile don't inherit what opens it.

    Args:
        home: The home directory.
        database: What to open.
        on_loss: Is told, from any thread, why this is not its only master any more.
        accept_new_database: Whether the home may leave the database that it had, though never for
            that of another home.

    Raises:
        StateError: If the home has another database, or the database another home.
        StoreError: If it can't be opened, or has a master.
    """
    store = store_lib.open_store(database)
    try:
        problem = home_identity.find_rebinding(home.path, database, store)
        with store.reading() as session:
            is_foreign = home_identity.is_foreign(home.path, session.get_home_id())
        if problem and is_foreign:
            raise errors.StateError(f"{problem} Nothing was started.")
        if problem and not accept_new_database:
            raise errors.StateError(
                f"{problem} Nothing was started. To leave what is there, and go on with this one: "
                "`quintain master start --new_database`."
            )
        store.hold(on_loss)
        with home_database.hidden_from_children(database):
            yield store
    finally:
        store.close()
