"""An assignor that prefers members in the rack of a partition's replicas, for `docs/assignors.md`.

Each member registers with user data {"rack": NAME, "replicas": {TOPIC: {RACK: [NUMBER, ...]}}};
what any of them knows of replicas counts. Each hears how much it got from its own rack.
"""

from __future__ import annotations

import json

from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.model import Thread, TopicPartition


def assign(given: AssignmentInput) -> Assignment:
    """Level between the members of each topic; where that leaves a choice: the partition's racks
    first, then its present owner.
    """
    rack_of, racks_of = {}, {}
    for member, text in sorted(given.user_data.items()):
        said = json.loads(text)
        rack_of[member] = said.get("rack")
        for topic, racks in said.get("replicas", {}).items():
            for rack, numbers in racks.items():
                for number in numbers:
                    racks_of.setdefault((topic, number), set()).add(rack)

    targets, unassigned = {}, []
    local, remote, used = (dict.fromkeys(given.members, 0) for _ in range(3))

    for topic in sorted(given.partitions):
        takers = sorted(member for member, wanted in given.members.items() if topic in wanted)
        # nobody gets more of a topic than its share
        left = dict.fromkeys(takers, -(-len(given.partitions[topic]) // max(1, len(takers))))
        # those with the least choice first
        for number in sorted(
            given.partitions[topic], key=lambda n: len(racks_of.get((topic, n), ())) or 99
        ):
            partition = TopicPartition(topic, number)
            fit = [
                m
                for m in takers
                if left[m] and used[m] + given.path_bytes(partition) <= given.owner_path_bytes_max
            ]
            if not fit:
                unassigned += [partition] if takers else []
                continue
            owner = given.owners.get(partition, Thread("", 0)).member
            racks = racks_of.get((topic, number), ())
            best = min(fit, key=lambda m: (rack_of.get(m) not in racks, m != owner, -left[m], m))
            targets[partition] = Thread(best, number % given.members[best][topic])
            left[best] -= 1
            used[best] += given.path_bytes(partition)
            (local if rack_of.get(best) in racks else remote)[best] += 1

    told = {
        m: json.dumps({"rack": rack_of.get(m), "local": local[m], "remote": remote[m]})
        for m in given.members
    }
    return Assignment(targets, tuple(unassigned), told)
