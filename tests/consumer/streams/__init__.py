"""Message streams: options and queues."""
