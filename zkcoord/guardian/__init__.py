"""The guardian: a dead process's ZooKeeper session is closed in milliseconds instead of after the
session timeout.

ZooKeeper learns of a crash by silence, so a killed member keeps its registration and its partitions
for a whole session timeout. But the kernel knows at once. A small companion process therefore waits
on a *pidfd* of the guarded process; when that process is gone, the companion attaches to its
session (id and password, told beforehand through a pipe) and closes it, and ephemeral nodes vanish
as after a clean close.

Why that is safe: a pidfd is the process itself, not a number that the kernel may use again, and it
is readable only after the last thread of the process has exited. What is dead cannot write, fetch
or commit, so no lease has to run out first. Everything else that looks like death is not taken for
it: a closed pipe (a forked child may hold it open, a daemon may close it), a stopped or frozen
process, a network cut.

The parts, each of which may only know the ones before it:

* `handover` - the one message format between a guarded process and its guardian;
* `wire`     - the few ZooKeeper frames that are needed, and the loop that closes sessions;
* `companion`- the program that the guarded process starts (standard library only, few modules,
  about 10 MB resident);
* `link`     - how a process reaches its guardian: a companion of its own, or somebody else's
  through a Unix socket;
* `client`   - `Guardian`, the only thing coordinators and consumers use;
* `serve`    - one guardian for several processes: as a sidecar that shares a PID namespace;
* `init`     - the guardian as PID 1 of a container, which starts the process;
* `cli`      - `zkcoord guard`.

This package module imports nothing, so that the companion stays small: import `Guardian` from
`zkcoord.guardian.client`.
"""
