"""The port on kazoo: frames, connections, servers before 3.6."""
