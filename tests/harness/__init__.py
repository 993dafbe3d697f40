"""What every suite that touches a real server shares: waiting for a condition, servers as fixtures,
a proxy that breaks connections.

* `zookeeper.py`: one server for all tests of a process (a chroot for each), a server of one's own,
  and `Ensemble`: three with a quorum, each of which can be killed, paused, resumed and restarted
  alone;
* `proxy.py`: between clients and one server; loses replies after the request was executed, loses
  requests, cuts, delays, refuses, and is a black hole in one direction or both;
* `kafka.py`: a broker; `wait.py`: `wait_until`.

The fixtures themselves are in `tests/conftest.py`. Nothing here is started unless a test asks for
it, and nothing outlives the test process, also when that is killed with -9.
"""
