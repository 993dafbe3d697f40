"""HTTP: the application, its guard, its events, and the server."""
