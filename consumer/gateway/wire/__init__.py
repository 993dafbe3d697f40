"""One client of a group as the gateway sees it, pure: requests and messages in, answers out."""
