"""Every error that zkcoord raises on purpose: one tree, drawn here.

    ZkcoordError
    ├── ForkedProcessError                 a ZooKeeper session was used in a forked child of the
    │                                      process that opened it
    ├── UnavailableError                   ZooKeeper did not answer in time, or refuses this client:
    │                                      one sentence
    ├── UnknownGroupError                  no group of this name exists on the ensemble
    ├── RefusedError                       an operator's command is not carried out, or not further:
    │                                      something stands against it, which the sentence names
    ├── OutputLostError                    standard output does not take what a command was asked to
    │                                      print, and nothing was changed
    ├── NoJournalError                     there is no journal where one was looked for
    ├── ReplayError                        a recording of inputs cannot be read, or not by this
    │                                      version
    ├── ConfigurationError                 what the user gave cannot be used: one sentence that says
    │                                      what to write instead
    │   ├── InvalidGroupError              a group name that cannot be a path component, or that
    │   │                                  tools would mistake for something else
    │   ├── InvalidConsumerIdError         a chosen consumer id that cannot be part of a member's
    │   │                                  name
    │   ├── InvalidSubscriptionError       topics, streams or a pattern that no reader could decode
    │   │                                  again
    │   └── UnknownAssignorError           no assignor has this name
    └── StackError                         the servers of `zkcoord stack` cannot be set up: no Java,
                                           no jars, no port
        ├── JarVerificationError           a jar is not the one that the lock file names
        └── ServerNotReadyError            a server ended or did not answer in time; the message
                                           ends with its last log line

Two class attributes say what a caller may do. `retriable`: the same call may succeed later without
anything being changed. `fatal`: the process (or the consumer) cannot go on with what it was given.
Neither: this call failed, the next one may do. Outcomes of ZooKeeper's operations are values
(`zkcoord.zk.port`), not errors; what is found malformed in ZooKeeper is a `Malformed` value, never
an error.
"""

from __future__ import annotations

from typing import ClassVar


class ZkcoordError(Exception):
    """Root of the tree."""

    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False

    def __str__(self) -> str:
        """The sentence: kafka-python's errors, which some are as well, say their class first, and
        whoever prints a class and a sentence would have it twice.
        """
        return Exception.__str__(self)


class OutputLostError(ZkcoordError):
    """Standard output is closed or full: what was asked for could not be printed; nothing was
    changed.
    """


class ConfigurationError(ZkcoordError):
    """An option, a name or a combination of them cannot be used; the message is one sentence for
    the user.
    """

    fatal = True


class InvalidGroupError(ConfigurationError):
    """A group name that is refused."""


class InvalidConsumerIdError(ConfigurationError):
    """A chosen consumer id that is refused."""


class InvalidSubscriptionError(ConfigurationError):
    """A subscription that is refused."""


class UnknownAssignorError(ConfigurationError):
    """No assignor has this name."""


class ForkedProcessError(ZkcoordError):
    """A ZooKeeper session was used in a forked child: its connection belongs to the parent, and two
    users would mix their answers.
    """

    fatal = True


class StackError(ZkcoordError):
    """The local servers cannot be set up; the message is one sentence for the user."""

    fatal = True


class JarVerificationError(StackError):
    """A downloaded jar differs from the lock file: it is not run."""


class ServerNotReadyError(StackError):
    """A server ended while it started, or did not answer within its limit."""


class UnavailableError(ZkcoordError):
    """ZooKeeper cannot be asked now; the message is one sentence for the user."""

    retriable = True


class UnknownGroupError(ZkcoordError):
    """No group of this name exists on the ensemble."""


class RefusedError(ZkcoordError):
    """An operator's command is not carried out, or not further; the message is one sentence that
    says what stands against it and what to do.
    """


class NoJournalError(ZkcoordError):
    """There is no journal where one was looked for."""


class ReplayError(ZkcoordError):
    """A recording of a coordinator's inputs cannot be read, or was written by another version; the
    message is one sentence for the user.
    """


class ScenarioError(ZkcoordError):
    """A scenario with real processes (the demo, a benchmark) cannot go on; the message is one
    sentence for the user.
    """

    fatal = True


class ConditionTimeoutError(ScenarioError):
    """A condition that was waited for did not come true in time; the message says which."""


class ChildEndedError(ScenarioError):
    """A process that should run ended by itself; the message has its last words."""
