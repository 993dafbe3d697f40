"""What is checked: the configurations in docs/spec, and each rule taken out of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SIZES = ("small", "medium", "large")
COORDINATION, CLIENT_LED = "Coordination", "ClientLed"
INVARIANTS = {
    COORDINATION: ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "Eviction"),
    CLIENT_LED: ("L1", "L2", "L3", "FencedCommits", "I2"),
}
LIVENESS = {"I8", "L5"}
ONE = {"Members": "{m1}", "Partitions": "{p1}", "Coordinators": "{c1}"}
TWO_MEMBERS = {**ONE, "Members": "{m1, m2}"}
TWO_COORDINATORS = {**ONE, "Coordinators": "{c1, c2}"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file of docs/spec, without its ending, and the module that it is for."""

    name: str
    module: str
    size: str


CONFIGURATIONS = (
    Configuration("small", COORDINATION, "small"),
    Configuration("offsets", COORDINATION, "small"),
    Configuration("operators", COORDINATION, "small"),
    Configuration("refines", COORDINATION, "small"),
    Configuration("live-elections", COORDINATION, "small"),
    Configuration("live-doubt", COORDINATION, "small"),
    Configuration("led-live", CLIENT_LED, "small"),
    Configuration("live", COORDINATION, "medium"),
    Configuration("elections", COORDINATION, "medium"),
    Configuration("medium", COORDINATION, "medium"),
    Configuration("led-medium", CLIENT_LED, "medium"),
    Configuration("full", COORDINATION, "medium"),
    Configuration("led-large", CLIENT_LED, "large"),
)


@dataclass(frozen=True, slots=True)
class Removed:
    """A rule that is not in force, in a world that is just large enough (`world`: constants): TLC
    must find that `breaks` does not hold.
    """

    rule: str
    breaks: str
    world: Mapping[str, str] = field(default_factory=dict)
    module: str = COORDINATION


def _faults(**often: int) -> dict[str, str]:
    return {name: str(times) for name, times in often.items()}


REMOVED = (
    Removed("NewNamePerSession", "I3", TWO_MEMBERS | _faults(Evictions=1)),
    Removed("ReadBackChecksLeader", "I1", TWO_COORDINATORS | _faults(LostMessages=1)),
    Removed("ReadBackChecksEpoch", "I2", ONE | _faults(LostMessages=1, EpochEdits=1)),
    Removed(
        "DropStateClosesSession",
        "I6",
        TWO_MEMBERS | {"Partitions": "{p1, p2}"} | _faults(CoordinatorPauses=1),
    ),
    Removed("LeavesOwnSeat", "I8", ONE | _faults(LostMessages=1, EpochEdits=1)),
    Removed("EpochFromClock", "I1", ONE | _faults(EpochEdits=1)),
    Removed(
        "AckChecksRegistration",
        "I3",
        TWO_MEMBERS | {"Partitions": "{p1, p2}"} | _faults(Evictions=1),
    ),
    Removed("AdoptsWhatItOwns", "I8", ONE | _faults(LostMessages=1)),
    Removed(
        "ResumesWithdrawn",
        "I8",
        TWO_MEMBERS | {"Partitions": "{p1, p2}"} | _faults(CoordinatorCrashes=1),
    ),
    Removed("ReadsWhatItHolds", "I3", TWO_MEMBERS | _faults(LostMessages=1, CoordinatorCrashes=1)),
    Removed("LeaseChecked", "I3", TWO_MEMBERS | _faults(MemberPauses=1)),
    Removed("LeaseFromSending", "I3", TWO_MEMBERS | _faults(MemberPauses=1, LostMessages=1)),
    Removed("LeaseByMultiOnly", "I3", TWO_MEMBERS | _faults(Evictions=1)),
    Removed("EvictIsOneMulti", "Eviction", ONE | _faults(SlowMembers=1)),
    Removed("ElectionChecksVersion", "I1", TWO_COORDINATORS | _faults(StepDowns=1)),
    Removed("EpochFence", "I7", TWO_COORDINATORS | _faults(CoordinatorPauses=1)),
    Removed("CleansOlderCommands", "I7", TWO_MEMBERS | _faults(CoordinatorCrashes=1)),
    Removed("StopBarrier", "I7", TWO_MEMBERS),
    Removed("StartBarrier", "I7", TWO_MEMBERS),
    Removed("OneCommand", "I6", TWO_MEMBERS),
    Removed("WaitForOrphans", "I3", TWO_MEMBERS | _faults(Evictions=1)),
    Removed("CommitChecksRegistration", "I3", TWO_MEMBERS | _faults(Evictions=1, MaxOffset=1)),
    Removed("OffsetVersionFence", "I4", ONE | _faults(Resets=1, MaxOffset=2)),
    Removed("WrittenBeforeJoined", "L2", {}, CLIENT_LED),
    Removed("WrittenBeforeAssigned", "L3", {}, CLIENT_LED),
    Removed("EpochFence", "L1", _faults(CoordinatorPauses=1), CLIENT_LED),
    Removed("GenerationGoesOn", "L1", _faults(CoordinatorCrashes=1), CLIENT_LED),
    Removed("RequestsStay", "L5", _faults(CoordinatorCrashes=1), CLIENT_LED),
    Removed("CommitChecksState", "FencedCommits", _faults(Commits=1, SlowClients=1), CLIENT_LED),
)
BASE = {COORDINATION: "none", CLIENT_LED: "led-none"}
"""Configurations without any fault, from which worlds of removed rules are made."""
