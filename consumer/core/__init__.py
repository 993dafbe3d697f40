"""The pure half of a consumer: what it decides, without a socket, a thread or a clock."""
