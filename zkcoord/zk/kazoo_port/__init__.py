"""The port on kazoo: sessions, frames, and the only use of kazoo's private side."""
