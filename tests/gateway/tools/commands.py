"""What is asked, in which order: the words of kafka-consumer-groups.sh, and calls of admin clients.
`{group}`, `{topic}`, `{none}` (a group that there is not) and `{file}` stand for what they say.
"""

from __future__ import annotations

from dataclasses import dataclass

TOOL, JAVA, CONFLUENT, KAFKA_PYTHON, KCAT = (
    "kafka-consumer-groups.sh",
    "Admin",
    "confluent-kafka",
    "kafka-python",
    "kcat",
)


@dataclass(frozen=True)
class Command:
    """`who` is asked, `words` are what; `note`: when, where the same is asked several times."""

    who: str
    words: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.words}, {self.note}" if self.note else self.words


def tool(note: str, *lines: str) -> list[Command]:
    """Commands of kafka-consumer-groups.sh."""
    return [Command(TOOL, line, note) for line in lines]


def admins(note: str, *calls: str) -> list[Command]:
    """The same call of every admin client."""
    return [Command(who, call, note) for call in calls for who in (JAVA, CONFLUENT, KAFKA_PYTHON)]


LOOKS = (
    "--describe --group {group}",
    "--describe --group {group} --offsets",
    "--describe --group {group} --offsets --verbose",
    "--describe --group {group} --members",
    "--describe --group {group} --members --verbose",
    "--describe --group {group} --state",
    "--describe --group {group} --state --verbose",
    "--describe --all-groups",
    "--describe --all-groups --members",
    "--describe --all-groups --state",
    "--list",
    "--list --state",
    "--list --state Stable",
    "--list --state Empty",
    "--list --state PreparingRebalance,Dead",
    "--list --state nothing",
    "--list --type",
    "--list --type classic",
    "--list --type consumer",
    "--list --type nothing",
    "--list --state --type",
    "--list --state Stable --type Classic",
)
RESET = "--reset-offsets --group {group}"
RESETS = (
    f"{RESET} --topic {{topic}} --to-earliest",
    f"{RESET} --topic {{topic}} --to-earliest --dry-run",
    f"{RESET} --topic {{topic}} --to-earliest --execute",
    f"{RESET} --topic {{topic}} --to-latest --dry-run",
    f"{RESET} --topic {{topic}} --to-latest --execute",
    f"{RESET} --topic {{topic}} --to-offset 3 --dry-run",
    f"{RESET} --topic {{topic}} --to-offset 3 --execute",
    f"{RESET} --topic {{topic}} --to-offset 1000000 --execute",
    f"{RESET} --topic {{topic}}:0,1 --shift-by -2 --execute",
    f"{RESET} --topic {{topic}}:0,1 --shift-by 3 --execute",
    f"{RESET} --topic {{topic}} --shift-by -1000 --dry-run",
    f"{RESET} --topic {{topic}} --by-duration PT1H --execute",
    f"{RESET} --topic {{topic}} --by-duration PT0S --dry-run",
    f"{RESET} --topic {{topic}} --to-datetime 2020-01-01T00:00:00.000 --execute",
    f"{RESET} --topic {{topic}} --to-datetime 2100-01-01T00:00:00.000 --dry-run",
    f"{RESET} --topic {{topic}} --to-current --execute",
    f"{RESET} --topic {{topic}}:2 --to-current --dry-run",
    f"{RESET} --all-topics --to-offset 6 --execute",
    f"{RESET} --topic {{topic}} --from-file {{file}} --dry-run",
    f"{RESET} --from-file {{file}} --execute",
    f"{RESET} --all-topics --from-file {{file}} --execute",
    f"{RESET} --all-topics --to-current --export",
    f"{RESET} --topic {{topic}} --to-latest --export --execute",
    f"{RESET} --topic no-such-topic --to-earliest --execute",
    f"{RESET} --topic {{topic}}",
    f"{RESET} --to-earliest",
    "--describe --group {group}",
)
REFUSED_WHILE_LIVE = (
    f"{RESET} --topic {{topic}} --to-earliest --dry-run",
    f"{RESET} --topic {{topic}} --to-earliest --execute",
    "--delete-offsets --group {group} --topic {topic}",
    "--delete-offsets --group {group} --topic {topic}:0",
    "--delete --group {group}",
)
GONE = (
    "--describe --group {none}",
    "--describe --group {none} --members",
    "--describe --group {none} --state",
    "--delete --group {none}",
    "--delete-offsets --group {none} --topic {topic}",
    "--reset-offsets --group {none} --topic {topic} --to-earliest --dry-run",
)
DELETIONS = (
    "--delete-offsets --group {group} --topic {topic}:0",
    "--describe --group {group}",
    "--delete-offsets --group {group} --topic {topic}:0",
    "--delete-offsets --group {group} --topic no-such-topic",
    "--delete-offsets --group {group}",
)
LAST = (
    "--delete --group {group}",
    "--describe --group {group}",
    "--delete --group {group}",
    "--list --state",
)
LIVE, EMPTY, DELETED, MADE_ANEW, BARE = "live", "empty", "deleted", "altered", "without offsets"
"""States of the group. Altered: one that had been deleted, and of which an offset was stored."""

WHILE_LIVE = [
    *tool(LIVE, *LOOKS, *REFUSED_WHILE_LIVE, *GONE),
    *admins(LIVE, "list", "describe", "offsets", "alter", "delete offsets", "delete"),
    Command(KCAT, "-L -t {topic}"),
    Command(KCAT, "-Q -t {topic}:0:-1"),
]
WHEN_EMPTY = [
    *tool(EMPTY, *LOOKS, *RESETS),
    *admins(EMPTY, "list", "describe", "offsets", "alter", "offsets", "delete offsets", "offsets"),
    *tool(EMPTY, *DELETIONS),
]
AT_LAST = [
    *tool(DELETED, *LAST),
    *admins(DELETED, "describe", "offsets", "delete offsets", "delete"),
    Command(JAVA, "alter", DELETED),
    *admins(MADE_ANEW, "list", "describe", "offsets"),
    *tool(MADE_ANEW, "--list --state", "--describe --group {group}"),
    *tool(MADE_ANEW, "--delete-offsets --group {group} --topic {topic}"),
    *admins(BARE, "list", "describe", "offsets"),
    *tool(BARE, "--list --state", "--describe --group {group}", "--delete --group {group}"),
]
