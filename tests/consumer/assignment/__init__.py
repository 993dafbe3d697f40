"""Assignment state, listeners, subscriptions."""
