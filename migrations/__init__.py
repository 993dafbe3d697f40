"""Where a group's offsets are, moved: from old consumers in ZooKeeper to coordinated groups, from
there to Kafka's own groups, and back. `zkcoord migrate` is the command line.

A migration is a numbered step with a way forward and a way back; both are pure functions from what
the two stores hold now to what is to be written (`steps`). One step is planned (nothing is
written), applied (after a backup, conditionally, and read again), verified, or rolled back, for one
group or thousands. It keeps no state but a journal for the way back: what is to be done is always
concluded from the stores, so a migration that was killed is simply run again.
"""
