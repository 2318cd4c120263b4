"""HTTP servers of apps: sockets, limits on connections, and checks of requests."""
