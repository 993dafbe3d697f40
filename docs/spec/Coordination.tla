---------------------------- MODULE Coordination ----------------------------
(***************************************************************************)
(* What coordinators and members of one group write into ZooKeeper, and in *)
(* which order.  docs/spec/README.md says in plain English what is in      *)
(* here, what is left out, and which function of the code each action is.  *)
(*                                                                         *)
(* One step of this module is one transaction of ZooKeeper (a multi), one  *)
(* synced read with what follows from it, or one fault.  Time is not       *)
(* counted: a lease is valid or over, and whatever a process waits for is  *)
(* a guard on what must be over by then.                                   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Members, Partitions, Coordinators,  \* model values
    None,                               \* a model value: nobody, nothing
    Late,                               \* a model value: a commit that is still on its way
    Sticky,                             \* targets move no more than they must
    MaxOffset,                          \* records 0 .. MaxOffset-1 of each partition
    \* How often each fault may happen.
    MemberCrashes, MemberPauses, CoordinatorCrashes, CoordinatorPauses,
    LostMessages, SlowMembers, Evictions, Resets, GroupPauses, StepDowns, EpochEdits

CONSTANTS
    \* Which of the rules of docs/protocol.md are in force; all of them are, in the product.
    \* Those that the protocol's design marks with a star.
    NewNamePerSession, ReadBackChecksLeader, ReadBackChecksEpoch, DropStateClosesSession,
    LeavesOwnSeat,
    EpochFromClock, AckChecksRegistration, AdoptsWhatItOwns, ResumesWithdrawn,
    ReadsWhatItHolds, LeaseChecked, LeaseFromSending, LeaseByMultiOnly, EvictIsOneMulti,
    \* Those that it does not mark, because they are older.
    ElectionChecksVersion, EpochFence, CleansOlderCommands, StopBarrier, StartBarrier, OneCommand,
    WaitForOrphans, CommitChecksRegistration, OffsetVersionFence

VARIABLES
    zk,     \* ZooKeeper's nodes and sessions
    mem,    \* what each member's process knows
    co,     \* what each coordinator's process knows
    late,   \* a commit whose connection was lost before it arrived; None: there is none
    left,   \* how many faults of each kind may still happen
    bad     \* invariants that a transaction has broken

vars == <<zk, mem, co, late, left, bad>>

Faults == {"crash", "pause", "ccrash", "cpause", "lost", "slow", "evict", "reset", "gpause",
           "stepdown", "edit"}

(***************************************************************************)
(* Where everything begins: nobody is registered, nobody leads.            *)
(***************************************************************************)
NewMember ==
    [st |-> "out",       \* out: has no session; in: believes that it is registered; dead
     away |-> FALSE,     \* stopped or cut off: nothing that it does reaches ZooKeeper
     lease |-> FALSE,    \* its own clock says that it may hand out
     proof |-> FALSE,    \* an answer is under way that would renew the lease, and is not too old
     held |-> {},        \* what it believes to own
     giving |-> {},      \* what of it the application is giving up
     cur |-> None,       \* the command that it carries out
     todo |-> {},        \* what of a start is free, by its reading
     doubt |-> FALSE,    \* does not know how a write ended
     done |-> 0,         \* epoch of the latest command that it has carried out
     pos |-> [p \in Partitions |-> 0],  \* next record to hand out
     ans |-> FALSE]      \* the answer to a start's ack is under way

NewCoordinator ==
    [st |-> "standby",   \* standby, stood (has read an epoch to succeed), unsure, leads, dead
     away |-> FALSE,     \* stopped or cut off
     read |-> 0,         \* the epoch that it succeeds
     readv |-> 0,        \* the version that the epoch's node had
     epoch |-> 0,        \* its own epoch
     fence |-> 0,        \* the version that its election gave the epoch's node
     again |-> FALSE,    \* its state was dropped, and it leads again under the same epoch
     target |-> [p \in Partitions |-> None],
     made |-> None,      \* for whom (and whether paused) the target was made; None: there is none
     noted |-> {},       \* whose owner nodes it has seen without their registration
     young |-> {},       \* who has proved its membership after that
     pend |-> None]      \* the write that is under way

Init ==
    /\ zk = [epoch |-> 1, version |-> 1, top |-> 1,   \* top: the highest epoch ever
             leader |-> None, leads |-> 0,            \* leads: the epoch in the leader's node
             csess |-> [c \in Coordinators |-> TRUE],
             sess |-> [m \in Members |-> FALSE],
             reg |-> [m \in Members |-> FALSE],
             owner |-> [p \in Partitions |-> None],
             cmds |-> [m \in Members |-> {}],
             off |-> [p \in Partitions |-> 0],
             \* Who knows the version that the offset's node has now.
             knows |-> [p \in Partitions |-> {}],
             asked |-> None,                          \* whom an operator wants evicted
             paused |-> FALSE]                        \* an operator has paused the group
    /\ mem = [m \in Members |-> NewMember]
    /\ co = [c \in Coordinators |-> NewCoordinator]
    /\ late = None
    /\ left = [crash |-> MemberCrashes, pause |-> MemberPauses, ccrash |-> CoordinatorCrashes,
               cpause |-> CoordinatorPauses, lost |-> LostMessages, slow |-> SlowMembers,
               evict |-> Evictions, reset |-> Resets, gpause |-> GroupPauses,
               stepdown |-> StepDowns, edit |-> EpochEdits]
    /\ bad = {}

(***************************************************************************)
(* Words.                                                                  *)
(***************************************************************************)
Spend(fault) == left[fault] > 0 /\ left' = [left EXCEPT ![fault] = @ - 1]

Command(kind, parts, c) ==
    [kind |-> kind, parts |-> parts, epoch |-> co[c].epoch, again |-> co[c].again,
     old |-> FALSE]  \* old: for an earlier incarnation of the member

\* What `check(own registration, 0)` finds.  Under one name for all sessions it finds anybody's.
IsRegistered(m) == IF NewNamePerSession THEN zk.reg[m] ELSE \E x \in Members : zk.reg[x]

\* A process that can reach ZooKeeper, and whose session lives.
Reaches(m) == mem[m].st = "in" /\ ~mem[m].away /\ zk.sess[m]

\* It may write: nothing is under way, nothing is in doubt.
Writes(m) == Reaches(m) /\ ~mem[m].doubt /\ ~mem[m].ans

\* A member has proved its membership.  Who waits for its lease to end waits in vain.
Younger(m) ==
    [c \in Coordinators |->
        IF m \in co[c].noted THEN [co[c] EXCEPT !.young = @ \cup {m}] ELSE co[c]]

\* A session ends: its registration and its owner nodes go in one transaction; the commands for it
\* stay, for nobody.
Ended(z, m) ==
    [z EXCEPT !.sess[m] = FALSE, !.reg[m] = FALSE,
              !.owner = [p \in Partitions |-> IF @[p] = m THEN None ELSE @[p]],
              !.cmds[m] = {[k EXCEPT !.old = TRUE] : k \in @},
              !.asked = IF @ = m THEN None ELSE @,
              !.knows = [p \in Partitions |-> @[p] \ {m, Late}]]

ForgottenBy(m) ==
    [c \in Coordinators |->
        [co[c] EXCEPT !.noted = @ \ {m}, !.young = @ \ {m},
                      !.pend = IF @ # None /\ @.m = m THEN [@ EXCEPT !.old = TRUE] ELSE @]]

LateWithout(m) == IF late # None /\ late.m = m THEN None ELSE late

\* A member learns that it is out: it drops everything and closes its session.
Leave(m) ==
    /\ zk' = Ended(zk, m)
    /\ co' = ForgottenBy(m)
    /\ late' = LateWithout(m)
    /\ mem' = [mem EXCEPT ![m] = NewMember]
    /\ UNCHANGED bad

\* The answer to a write does not come: the member is in doubt.
Doubts(r) == [r EXCEPT !.doubt = TRUE]

Proved(r) == [r EXCEPT !.lease = TRUE]

(***************************************************************************)
(* Members: their lives.                                                   *)
(***************************************************************************)
Join(m) ==
    /\ mem[m].st = "out" /\ ~zk.sess[m]
    /\ NewNamePerSession \/ \A x \in Members : ~zk.reg[x]
    /\ zk' = [zk EXCEPT !.sess[m] = TRUE, !.reg[m] = TRUE]
    /\ mem' = [mem EXCEPT ![m] =
                [NewMember EXCEPT !.st = "in", !.lease = TRUE]]
    /\ UNCHANGED <<co, late, left, bad>>

\* An idle member proves its membership by a multi that holds the check alone.
Renew(m) ==
    /\ Writes(m) /\ ~mem[m].lease /\ IsRegistered(m)
    /\ mem' = [mem EXCEPT ![m] = Proved(@)]
    /\ co' = Younger(m)
    /\ UNCHANGED <<zk, late, left, bad>>

\* Without the rule: a server that lags says that the registration is there.
RenewByRead(m) ==
    /\ ~LeaseByMultiOnly
    /\ Writes(m) /\ ~mem[m].lease
    /\ mem' = [mem EXCEPT ![m] = Proved(@)]
    /\ co' = Younger(m)
    /\ UNCHANGED <<zk, late, left, bad>>

\* It sees that its registration is gone, by a watch or because a check fails.
SeeEviction(m) ==
    /\ Reaches(m) /\ ~IsRegistered(m)
    /\ Leave(m)
    /\ UNCHANGED left

\* It learns that its session has ended.
SeeExpiry(m) ==
    /\ mem[m].st = "in" /\ ~mem[m].away /\ ~zk.sess[m] /\ ~mem[m].ans
    /\ mem' = [mem EXCEPT ![m] = NewMember]
    /\ UNCHANGED <<zk, co, late, left, bad>>

(***************************************************************************)
(* Members: commands.                                                      *)
(***************************************************************************)
\* Where a term may begin again (without the rule) it matters what was done in it before.
Done(k) == IF DropStateClosesSession THEN 0 ELSE k.epoch

\* Take a command up, and for a start read the partitions: what is free, and what is mine already.
TakeUp(m, k) ==
    /\ Writes(m) /\ mem[m].lease /\ mem[m].cur = None
    /\ k \in zk.cmds[m] /\ ~k.old
    /\ ~(k.again /\ mem[m].done = k.epoch)
    /\ LET free == {p \in k.parts : zk.owner[p] = None}
           mine == {p \in k.parts : zk.owner[p] = m} \ mem[m].held
           adopted == IF AdoptsWhatItOwns THEN mine ELSE {}
           read == free \cup adopted
       IN  IF k.kind = "stop"
           THEN /\ mem' = [mem EXCEPT ![m] =
                            [@ EXCEPT !.cur = k,
                                      !.giving = @ \cup (k.parts \cap mem[m].held)]]
                /\ UNCHANGED zk
           ELSE /\ mem' = [mem EXCEPT ![m] =
                            [@ EXCEPT !.cur = k, !.todo = free,
                                      !.held = @ \cup adopted,
                                      !.pos = [p \in Partitions |->
                                                IF p \in read THEN zk.off[p] ELSE @[p]]]]
                /\ zk' = [zk EXCEPT !.knows = [p \in Partitions |->
                                IF p \in read THEN @[p] \cup {m} ELSE @[p]]]
    /\ UNCHANGED <<co, late, left, bad>>

Take(m) == \E k \in zk.cmds[m] : TakeUp(m, k)

\* The multi of a stop's ack: the command and the owner nodes go, the offsets are stored.
GivenUp(m) == mem[m].giving \cap mem[m].cur.parts

StopHappens(m) ==
    LET k == mem[m].cur
        gone == GivenUp(m)
    IN  zk' = [zk EXCEPT !.cmds[m] = @ \ {k},
                         !.owner = [p \in Partitions |-> IF p \in gone THEN None ELSE @[p]],
                         !.off = [p \in Partitions |->
                                    IF p \in gone THEN mem[m].pos[p] ELSE @[p]],
                         !.knows = [p \in Partitions |-> IF p \in gone THEN {} ELSE @[p]]]

Broken(m, values) ==
    bad' = bad \cup (IF \E p \in DOMAIN values : values[p] < zk.off[p] THEN {"I4"} ELSE {})
               \cup (IF \E p \in DOMAIN values : zk.owner[p] # m THEN {"I5"} ELSE {})

Stopped(r) ==
    [r EXCEPT !.held = @ \ r.cur.parts, !.giving = @ \ r.cur.parts, !.cur = None,
              !.done = Done(r.cur), !.lease = TRUE,
              !.pos = [p \in Partitions |-> IF p \in r.cur.parts THEN 0 ELSE @[p]]]

CheckedAck(m) == ~AckChecksRegistration \/ IsRegistered(m)
KnowsVersions(m, parts) == ~OffsetVersionFence \/ \A p \in parts : m \in zk.knows[p]

AckStop(m) ==
    /\ Writes(m) /\ mem[m].cur # None /\ mem[m].cur.kind = "stop"
    /\ LET k == mem[m].cur
           possible == /\ k \in zk.cmds[m]
                       /\ \A p \in GivenUp(m) : zk.owner[p] # None
                       /\ KnowsVersions(m, GivenUp(m))
       IN  \/ /\ CheckedAck(m) /\ possible
              /\ StopHappens(m)
              /\ Broken(m, [p \in GivenUp(m) |-> mem[m].pos[p]])
              /\ \/ /\ mem' = [mem EXCEPT ![m] = Stopped(@)]
                    /\ co' = Younger(m)
                    /\ UNCHANGED left
                 \/ /\ Spend("lost")  \* it happened, and the answer is lost
                    /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
                    /\ UNCHANGED co
              /\ UNCHANGED late
           \/ /\ CheckedAck(m) /\ ~possible
              /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
              /\ UNCHANGED <<zk, co, late, left, bad>>
           \/ /\ Spend("lost")  \* it never arrives
              /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
              /\ UNCHANGED <<zk, co, late, bad>>

\* The multi of a start's ack: the command goes, owner nodes are made, each offset is written again
\* with its own value: the fence against whoever knew its version.
StartHappens(m) ==
    LET k == mem[m].cur
        new == mem[m].todo
    IN  zk' = [zk EXCEPT !.cmds[m] = @ \ {k},
                         !.owner = [p \in Partitions |-> IF p \in new THEN m ELSE @[p]],
                         !.knows = [p \in Partitions |-> IF p \in new THEN {m} ELSE @[p]]]

Started(r) ==
    [r EXCEPT !.held = @ \cup r.todo, !.todo = {}, !.cur = None, !.done = Done(r.cur)]

AckStart(m) ==
    /\ Writes(m) /\ mem[m].cur # None /\ mem[m].cur.kind = "start"
    /\ LET k == mem[m].cur
           possible == /\ k \in zk.cmds[m]
                       /\ \A p \in mem[m].todo : zk.owner[p] = None
                       /\ KnowsVersions(m, mem[m].todo)
       IN  \/ /\ CheckedAck(m) /\ possible
              /\ StartHappens(m)
              /\ \/ /\ mem' = [mem EXCEPT ![m] = Proved(Started(@))]
                    /\ co' = Younger(m)
                    /\ UNCHANGED left
                 \/ /\ Spend("lost")  \* the answer is lost
                    /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
                    /\ UNCHANGED co
                 \/ /\ Spend("lost")  \* the answer comes later
                    /\ mem' = [mem EXCEPT ![m] = [@ EXCEPT !.ans = TRUE, !.proof = TRUE]]
                    /\ UNCHANGED co
              /\ UNCHANGED <<late, bad>>
           \/ /\ CheckedAck(m) /\ ~possible
              /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
              /\ UNCHANGED <<zk, co, late, left, bad>>
           \/ /\ Spend("lost")
              /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
              /\ UNCHANGED <<zk, co, late, bad>>

\* The answer to a start's ack comes, maybe after the session has ended.  The lease counts from when
\* the ack was sent.
HearAnswer(m) ==
    /\ mem[m].st = "in" /\ ~mem[m].away /\ mem[m].ans
    /\ mem' = [mem EXCEPT ![m] =
                [Started(@) EXCEPT !.ans = FALSE, !.proof = FALSE,
                                   !.lease = @ \/ mem[m].proof \/ ~LeaseFromSending]]
    /\ co' = IF LeaseFromSending THEN co ELSE Younger(m)
    /\ UNCHANGED <<zk, late, left, bad>>

\* The synced read that settles a doubt: what I hold is what my session owns.
Settle(m) ==
    /\ Reaches(m) /\ mem[m].doubt /\ ~mem[m].ans /\ IsRegistered(m)
    /\ LET r == mem[m]
           k == r.cur
           there == k # None /\ k \in zk.cmds[m]
           owned == {p \in Partitions : zk.owner[p] = m}
           kept == IF AdoptsWhatItOwns THEN owned ELSE owned \cap r.held
           \* Without the rule: a command that is gone was carried out.
           believed == CASE k # None /\ ~there /\ k.kind = "start" -> r.held \cup r.todo
                         [] k # None /\ ~there /\ k.kind = "stop" -> r.held \ r.giving
                         [] OTHER -> kept
           held == IF ReadsWhatItHolds THEN kept ELSE believed
           todo == IF there /\ k.kind = "start"
                   THEN {p \in k.parts : zk.owner[p] = None} ELSE {}
           read == {p \in held \cup todo : m \notin zk.knows[p]}
       IN  /\ mem' = [mem EXCEPT ![m] =
                [@ EXCEPT !.doubt = FALSE, !.held = held, !.todo = todo,
                          !.cur = IF there THEN k ELSE None,
                          !.giving = IF there /\ k.kind = "stop" THEN k.parts \cap held
                                     ELSE IF ResumesWithdrawn THEN {} ELSE @ \cap held,
                          !.pos = [p \in Partitions |->
                                    IF p \in read \/ (p \in held /\ p \notin r.held)
                                    THEN zk.off[p]
                                    ELSE IF p \in held \cup todo THEN @[p] ELSE 0]]]
           /\ zk' = [zk EXCEPT !.knows = [p \in Partitions |->
                        IF p \in held \cup todo THEN @[p] \cup {m} ELSE @[p] \ {m}]]
    /\ UNCHANGED <<co, late, left, bad>>

(***************************************************************************)
(* Members: records and offsets.                                           *)
(***************************************************************************)
MayHandOut(m, p) ==
    /\ mem[m].st = "in" /\ p \in mem[m].held \ mem[m].giving
    /\ mem[m].lease \/ ~LeaseChecked

HandOut(m, p) ==
    /\ MayHandOut(m, p) /\ mem[m].pos[p] < MaxOffset
    /\ mem' = [mem EXCEPT ![m].pos[p] = @ + 1]
    /\ UNCHANGED <<zk, co, late, left, bad>>

CommitHappens(p, value, knows) ==
    zk' = [zk EXCEPT !.off[p] = value, !.knows[p] = knows]

\* One multi: check of the own registration, the offset at the version held.
Commit(m, p) ==
    /\ Writes(m) /\ p \in mem[m].held
    /\ mem[m].pos[p] # zk.off[p] \/ m \notin zk.knows[p]
    /\ LET checked == ~CommitChecksRegistration \/ IsRegistered(m)
           fits == KnowsVersions(m, {p})
           value == mem[m].pos[p]
       IN  \/ /\ checked /\ fits
              /\ CommitHappens(p, value, {m})
              /\ Broken(m, [q \in {p} |-> value])
              /\ \/ /\ mem' = [mem EXCEPT ![m] = Proved(@)]
                    /\ co' = Younger(m)
                    /\ UNCHANGED left
                 \/ /\ Spend("lost")  \* the answer is lost; a member knows its own value again
                    /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
                    /\ UNCHANGED co
              /\ UNCHANGED late
           \/ /\ checked /\ ~fits
              /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
              /\ UNCHANGED <<zk, co, late, left, bad>>
           \/ /\ Spend("lost") /\ late = None  \* it arrives later, or never
              /\ late' = [m |-> m, p |-> p, value |-> value]
              /\ mem' = [mem EXCEPT ![m] = Doubts(@)]
              /\ zk' = [zk EXCEPT !.knows[p] = IF m \in @ THEN @ \cup {Late} ELSE @]
              /\ UNCHANGED <<co, bad>>

Arrive ==
    /\ late # None
    /\ LET m == late.m
           p == late.p
       IN  IF /\ zk.sess[m]
              /\ ~CommitChecksRegistration \/ IsRegistered(m)
              /\ ~OffsetVersionFence \/ Late \in zk.knows[p]
           THEN CommitHappens(p, late.value, {}) /\ Broken(m, [q \in {p} |-> late.value])
           ELSE zk' = [zk EXCEPT !.knows[p] = @ \ {Late}] /\ UNCHANGED bad
    /\ late' = None
    /\ UNCHANGED <<mem, co, left>>

(***************************************************************************)
(* Members: what happens to them.                                          *)
(***************************************************************************)
CrashMember(m) ==
    /\ mem[m].st = "in" /\ Spend("crash")
    /\ mem' = [mem EXCEPT ![m] = [NewMember EXCEPT !.st = "dead"]]
    /\ zk' = [zk EXCEPT !.knows = [p \in Partitions |-> @[p] \ {m}]]
    /\ UNCHANGED <<co, late, bad>>

RestartMember(m) ==
    /\ mem[m].st = "dead" /\ ~zk.sess[m]
    /\ mem' = [mem EXCEPT ![m] = NewMember]
    /\ UNCHANGED <<zk, co, late, left, bad>>

PauseMember(m) ==
    /\ mem[m].st = "in" /\ ~mem[m].away /\ Spend("pause")
    /\ mem' = [mem EXCEPT ![m].away = TRUE]
    /\ UNCHANGED <<zk, co, late, bad>>

\* It goes on.  Where its connection was lost it is in doubt; where its process stood still, the
\* answer to its latest write may be waiting.
ResumeMember(m) ==
    /\ mem[m].away
    /\ \/ mem' = [mem EXCEPT ![m] = [@ EXCEPT !.away = FALSE, !.doubt = TRUE, !.ans = FALSE,
                                              !.proof = FALSE]]
       \/ mem[m].ans /\ mem' = [mem EXCEPT ![m].away = FALSE]
    /\ UNCHANGED <<zk, co, late, left, bad>>

\* Time passes.  A lease is over where nothing renews it.
LeaseEnds(m) ==
    /\ mem[m].lease /\ (mem[m].away \/ ~zk.reg[m] \/ mem[m].ans)
    /\ mem' = [mem EXCEPT ![m].lease = FALSE]
    /\ UNCHANGED <<zk, co, late, left, bad>>

ProofAges(m) ==
    /\ mem[m].proof /\ ~mem[m].lease
    /\ mem' = [mem EXCEPT ![m].proof = FALSE]
    /\ UNCHANGED <<zk, co, late, left, bad>>

\* Nothing was heard of a session for its timeout, which is longer than any lease.
SessionEnds(m) ==
    /\ zk.sess[m] /\ (mem[m].away \/ mem[m].st = "dead")
    /\ ~mem[m].lease /\ ~mem[m].proof
    /\ zk' = Ended(zk, m)
    /\ co' = ForgottenBy(m)
    /\ late' = LateWithout(m)
    /\ UNCHANGED <<mem, left, bad>>

(***************************************************************************)
(* Coordinators: election and the end of a term.                           *)
(***************************************************************************)
CanAct(c) == ~co[c].away /\ zk.csess[c]

Term(c, epoch, version, again) ==
    [NewCoordinator EXCEPT !.st = "leads", !.epoch = epoch, !.fence = version, !.again = again]

StandsBy(c) == [co EXCEPT ![c] = NewCoordinator]

\* Look at the seat.  Where it is free, the epoch's node says which epoch to succeed.
Stand(c) ==
    /\ co[c].st = "standby" /\ CanAct(c)
    /\ zk.leader = None /\ zk.epoch # 0
    /\ co' = [co EXCEPT ![c] = [@ EXCEPT !.st = "stood", !.read = zk.epoch,
                                         !.readv = zk.version]]
    /\ UNCHANGED <<zk, mem, late, left, bad>>

\* The epoch's node is empty: fill it, so that epochs go on rising.
FillEpoch(c) ==
    /\ co[c].st = "standby" /\ CanAct(c)
    /\ zk.leader = None /\ zk.epoch = 0
    /\ LET filled == IF EpochFromClock THEN zk.top + 1 ELSE 1
       IN  zk' = [zk EXCEPT !.epoch = filled, !.version = @ + 1,
                            !.top = IF filled > @ THEN filled ELSE @]
    /\ UNCHANGED <<mem, co, late, left, bad>>

\* What others have under way, and would do, fails from now on.
Others(c, mine) ==
    [d \in Coordinators |->
        IF d = c THEN mine
        ELSE IF EpochFence
        THEN [co[d] EXCEPT !.pend = None, !.noted = {}, !.young = {}, !.made = None,
                           !.target = NewCoordinator.target]
        ELSE co[d]]

Elected(c) ==
    LET e == co[c].read + 1
    IN  /\ zk' = [zk EXCEPT !.leader = c, !.leads = e, !.epoch = e, !.version = @ + 1,
                            !.top = IF e > @ THEN e ELSE @]
        /\ bad' = IF e > zk.top THEN bad ELSE bad \cup {"I1"}

\* ONE multi: create the leader's node, raise the epoch at the version that was read.
Run(c) ==
    /\ co[c].st = "stood" /\ CanAct(c)
    /\ LET wins == zk.leader = None /\ (zk.version = co[c].readv \/ ~ElectionChecksVersion)
       IN  \/ /\ wins /\ Elected(c)
              /\ \/ /\ co' = Others(c, Term(c, co[c].read + 1, zk.version + 1, FALSE))
                    /\ UNCHANGED left
                 \/ /\ Spend("lost")
                    /\ co' = Others(c, [co[c] EXCEPT !.st = "unsure"])
           \/ /\ ~wins
              /\ \/ /\ co' = StandsBy(c) /\ UNCHANGED left
                 \/ /\ Spend("lost")
                    /\ co' = [co EXCEPT ![c].st = "unsure"]
              /\ UNCHANGED <<zk, bad>>
    /\ UNCHANGED <<mem, late>>

\* The end of a term: the session is closed, all state is dropped, a new session stands.
Drop(c) ==
    LET off == DropStateClosesSession /\ zk.csess[c]
    IN  /\ zk' = [zk EXCEPT !.leader = IF off /\ @ = c THEN None ELSE @,
                            !.csess[c] = TRUE]
        /\ co' = StandsBy(c)

\* After a lost answer both nodes are read: it is a win only if the leader's node is mine and the
\* epoch is the one that I wrote.
ReadBack(c) ==
    /\ co[c].st = "unsure" /\ CanAct(c)
    /\ LET won == /\ zk.leader = c \/ ~ReadBackChecksLeader
                  /\ zk.epoch = co[c].read + 1 \/ ~ReadBackChecksEpoch
       IN  IF won
           THEN co' = [co EXCEPT ![c] = Term(c, @.read + 1, zk.version, FALSE)] /\ UNCHANGED zk
           ELSE IF zk.leader = c /\ LeavesOwnSeat
           THEN Drop(c)  \* the node is mine and the epoch is not: nobody could lead
           ELSE co' = StandsBy(c) /\ UNCHANGED zk
    /\ UNCHANGED <<mem, late, left, bad>>

\* A coordinator that stands by finds its own session's node on the seat: it leads, if both nodes
\* say the same epoch.  (It has dropped its state without closing its session.)
FindItself(c) ==
    /\ co[c].st = "standby" /\ CanAct(c)
    /\ zk.leader = c /\ zk.leads = zk.epoch
    /\ co' = [co EXCEPT ![c] = Term(c, zk.epoch, zk.version, TRUE)]
    /\ UNCHANGED <<zk, mem, late, left, bad>>

\* It finds out that it does not lead any more.
SeeEndOfTerm(c) ==
    /\ co[c].st = "leads" /\ ~co[c].away
    /\ zk.leader # c \/ zk.version # co[c].fence \/ ~zk.csess[c]
    /\ Drop(c)
    /\ UNCHANGED <<mem, late, left, bad>>

\* (Of one that stands by nobody would notice.)
MayFail(c) == co[c].st \in {"leads", "unsure"} /\ ~co[c].away

CrashCoordinator(c) ==
    /\ MayFail(c) /\ Spend("ccrash")
    /\ co' = [co EXCEPT ![c] = [NewCoordinator EXCEPT !.st = "dead", !.pend = co[c].pend,
                                                     !.epoch = co[c].epoch, !.fence = co[c].fence]]
    /\ UNCHANGED <<zk, mem, late, bad>>

RestartCoordinator(c) ==
    /\ co[c].st = "dead" /\ ~zk.csess[c]
    /\ zk' = [zk EXCEPT !.csess[c] = TRUE]
    /\ co' = StandsBy(c)
    /\ UNCHANGED <<mem, late, left, bad>>

PauseCoordinator(c) ==
    /\ MayFail(c) /\ Spend("cpause")
    /\ co' = [co EXCEPT ![c].away = TRUE]
    /\ UNCHANGED <<zk, mem, late, bad>>

CoordinatorSessionEnds(c) ==
    /\ zk.csess[c] /\ (co[c].away \/ co[c].st = "dead")
    /\ zk' = [zk EXCEPT !.csess[c] = FALSE, !.leader = IF @ = c THEN None ELSE @]
    /\ UNCHANGED <<mem, co, late, left, bad>>

\* It goes on: with its term, where it was away for a short time; else the term is over.
ResumeCoordinator(c) ==
    /\ co[c].away
    /\ \/ /\ zk.csess[c]
          /\ co' = [co EXCEPT ![c].away = FALSE]
          /\ UNCHANGED zk
       \/ Drop(c)
    /\ UNCHANGED <<mem, late, left, bad>>

(***************************************************************************)
(* Coordinators: decisions.  What is decided from what was read is a write *)
(* under way (`pend`), which arrives later, whatever happened meanwhile.   *)
(***************************************************************************)
\* (What is decided after the fence has moved fails for certain.)
Decides(c) ==
    /\ co[c].st = "leads" /\ CanAct(c) /\ co[c].pend = None
    /\ zk.version = co[c].fence \/ ~EpochFence

Registered == {m \in Members : zk.reg[m]}

Moves(t) == Cardinality({p \in Partitions : zk.owner[p] \in Registered /\ t[p] # zk.owner[p]})

\* Any balanced assignment, or those of them that move least.  Nothing in a paused group.
Targets ==
    IF zk.paused \/ Registered = {} THEN {[p \in Partitions |-> None]}
    ELSE LET balanced ==
                {t \in [Partitions -> Registered] :
                    \A m, o \in Registered :
                        Cardinality({p \in Partitions : t[p] = m})
                            <= Cardinality({p \in Partitions : t[p] = o}) + 1}
         IN  {t \in balanced : Sticky => \A u \in balanced : Moves(t) <= Moves(u)}

\* Members came or went, or an operator has paused or resumed the group: another target.
Now == <<Registered, zk.paused>>
Retarget(c) == co[c].made # Now

\* By which targets it may decide: a while after a change, still by the one before.
Aims(c) ==
    (IF co[c].made = None THEN {} ELSE {<<co[c].target, co[c].made>>})
    \cup (IF Retarget(c) THEN {<<t, Now>> : t \in Targets} ELSE {})

Send(c, m, k, aim) ==
    co' = [co EXCEPT ![c].pend = [op |-> "send", m |-> m, p |-> None, k |-> k, old |-> FALSE],
                     ![c].target = aim[1], ![c].made = aim[2]]

Pend(c, op, m, p, k) ==
    co' = [co EXCEPT ![c].pend = [op |-> op, m |-> m, p |-> p, k |-> k, old |-> FALSE]]

IsStale(c, m, k) == k.old \/ k.epoch < co[c].epoch \/ ~zk.reg[m]

Live(c, m) == {k \in zk.cmds[m] : ~IsStale(c, m, k)}

DecideClean(c, m) ==
    /\ Decides(c)
    /\ \E k \in zk.cmds[m] :
          /\ IsStale(c, m, k)
          /\ k.old \/ ~zk.reg[m] \/ CleansOlderCommands
          /\ Pend(c, "clean", m, None, k)
    /\ UNCHANGED <<zk, mem, late, left, bad>>

\* Who does not answer a command in time.  That one that lives is too slow is a fault, and bounded.
DecideEvict(c, m) ==
    /\ Decides(c)
    /\ \/ (mem[m].away \/ mem[m].st = "dead") /\ UNCHANGED left
       \/ Spend("slow")
    /\ \E k \in Live(c, m) : Pend(c, "evict", m, None, k)
    /\ UNCHANGED <<zk, mem, late, bad>>

DecideAskedEviction(c) ==
    /\ Decides(c) /\ zk.asked # None /\ zk.reg[zk.asked]
    /\ Pend(c, "asked", zk.asked, None, None)
    /\ UNCHANGED <<zk, mem, late, left, bad>>

\* Owner nodes whose registration is gone: note since when, wait for longer than any lease.
NoteOrphans(c, m) ==
    /\ Decides(c) /\ m \notin co[c].noted
    /\ zk.sess[m] /\ ~zk.reg[m] /\ \E p \in Partitions : zk.owner[p] = m
    /\ co' = [co EXCEPT ![c].noted = @ \cup {m}, ![c].young = @ \ {m}]
    /\ UNCHANGED <<zk, mem, late, left, bad>>

\* The wait is over: so is every lease that was proved before it began.
DecideFree(c, p) ==
    /\ Decides(c) /\ zk.owner[p] # None
    /\ LET m == zk.owner[p]
       IN  /\ ~zk.reg[m] /\ m \in co[c].noted
           /\ WaitForOrphans => (m \in co[c].young \/ (~mem[m].lease /\ ~mem[m].proof))
           /\ Pend(c, "free", m, p, None)
    /\ UNCHANGED <<zk, mem, late, left, bad>>

BeingStarted(p) == \E m \in Members : \E k \in zk.cmds[m] : k.kind = "start" /\ p \in k.parts

\* Per member without an outstanding command: stop what it owns and shall not, else start what it
\* shall own and is free.
DecideCommand(c, m) ==
    /\ Decides(c) /\ zk.reg[m]
    /\ \A n \in Members : \A k \in zk.cmds[n] :
          IsStale(c, n, k) => (~CleansOlderCommands /\ ~k.old /\ zk.reg[n])
    /\ OneCommand => Live(c, m) = {}
    /\ \E aim \in Aims(c) :
       LET t == aim[1]
           wrong == {p \in Partitions : zk.owner[p] = m /\ t[p] # m}
           busy(p) == IF CleansOlderCommands THEN BeingStarted(p)
                      ELSE \E n \in Members : \E k \in Live(c, n) :
                              k.kind = "start" /\ p \in k.parts
           free(p) == /\ zk.owner[p] = None
                         \/ (~StopBarrier /\ zk.owner[p] # m /\ zk.reg[zk.owner[p]])
                      /\ ~busy(p) \/ ~StartBarrier
           ready == {p \in Partitions : t[p] = m /\ free(p)}
       IN  \/ /\ wrong # {}
              /\ Send(c, m, Command("stop", wrong, c), aim)
           \/ /\ wrong = {} /\ ready # {}
              /\ Send(c, m, Command("start", ready, c), aim)
    /\ UNCHANGED <<zk, mem, late, left, bad>>

(***************************************************************************)
(* Coordinators: what their multis do when they arrive.  The first         *)
(* operation of each is the check of the epoch's node.                     *)
(***************************************************************************)
Fits(c, w) ==
    CASE w.op = "clean" -> w.k \in zk.cmds[w.m]
      [] w.op = "evict" -> zk.reg[w.m] /\ ~w.old /\ (w.k \in zk.cmds[w.m] \/ ~EvictIsOneMulti)
      [] w.op = "asked" -> zk.reg[w.m] /\ ~w.old /\ zk.asked = w.m
      [] w.op = "free" -> zk.owner[w.p] # None
      [] w.op = "send" -> TRUE

Effect(c, w) ==
    CASE w.op = "clean" -> [zk EXCEPT !.cmds[w.m] = @ \ {w.k}]
      [] w.op = "evict" -> [zk EXCEPT !.cmds[w.m] = {}, !.reg[w.m] = FALSE]
      [] w.op = "asked" -> [zk EXCEPT !.reg[w.m] = FALSE, !.asked = None]
      [] w.op = "free" -> [zk EXCEPT !.owner[w.p] = None]
      [] w.op = "send" -> [zk EXCEPT !.cmds[w.m] = @ \cup {[w.k EXCEPT !.old = w.old]}]

\* A start of what is owned, or is being started.
BreaksI7(w) ==
    /\ w.op = "send" /\ w.k.kind = "start"
    /\ \E p \in w.k.parts : zk.owner[p] # None \/ BeingStarted(p)

\* More than one command outstanding, or one that its member takes for one that it has carried out.
BreaksI6(w) ==
    /\ w.op = "send" /\ ~w.old
    /\ \/ \E k \in zk.cmds[w.m] : ~k.old /\ k.epoch = w.k.epoch
       \/ w.k.again /\ mem[w.m].done = w.k.epoch

ArriveWrite(c) ==
    /\ co[c].pend # None
    /\ LET w == co[c].pend
           happens == (zk.version = co[c].fence \/ ~EpochFence) /\ Fits(c, w)
       IN  IF happens
           THEN /\ zk' = Effect(c, w)
                /\ bad' = bad \cup (IF zk.epoch > co[c].epoch THEN {"I2"} ELSE {})
                              \cup (IF BreaksI7(w) THEN {"I7"} ELSE {})
                              \cup (IF BreaksI6(w) THEN {"I6"} ELSE {})
                              \cup (IF w.op = "evict" /\ w.k \notin zk.cmds[w.m]
                                    THEN {"Eviction"} ELSE {})
           ELSE UNCHANGED <<zk, bad>>
    /\ co' = [co EXCEPT ![c].pend = None]
    /\ UNCHANGED <<mem, late, left>>

(***************************************************************************)
(* Operators.                                                              *)
(***************************************************************************)
AskEviction(m) ==
    /\ zk.asked = None /\ zk.reg[m] /\ Spend("evict")
    /\ zk' = [zk EXCEPT !.asked = m]
    /\ UNCHANGED <<mem, co, late, bad>>

ResetOffset(p, value) ==
    /\ value # zk.off[p] /\ Spend("reset")
    /\ zk' = [zk EXCEPT !.off[p] = value, !.knows[p] = {}]
    /\ UNCHANGED <<mem, co, late, bad>>

PauseGroup ==
    /\ ~zk.paused /\ Spend("gpause")
    /\ zk' = [zk EXCEPT !.paused = TRUE]
    /\ UNCHANGED <<mem, co, late, bad>>

ResumeGroup ==
    /\ zk.paused
    /\ zk' = [zk EXCEPT !.paused = FALSE]
    /\ UNCHANGED <<mem, co, late, left, bad>>

\* `zkcoord coordinator step-down`: the leader's node is deleted.
StepDown ==
    /\ zk.leader # None /\ Spend("stepdown")
    /\ zk' = [zk EXCEPT !.leader = None]
    /\ UNCHANGED <<mem, co, late, bad>>

\* Somebody empties the epoch's node, or writes the next epoch into it.
EditEpoch ==
    /\ Spend("edit")
    /\ \E e \in {0, zk.top + 1} :
          zk' = [zk EXCEPT !.epoch = e, !.version = @ + 1, !.top = IF e > @ THEN e ELSE @]
    /\ UNCHANGED <<mem, co, late, bad>>

(***************************************************************************)
(* All together.                                                           *)
(***************************************************************************)
MemberActs(m) ==
    \/ Join(m) \/ Renew(m) \/ RenewByRead(m) \/ SeeEviction(m) \/ SeeExpiry(m)
    \/ Take(m) \/ AckStop(m) \/ AckStart(m) \/ HearAnswer(m) \/ Settle(m)
    \/ RestartMember(m) \/ ResumeMember(m) \/ LeaseEnds(m) \/ ProofAges(m) \/ SessionEnds(m)
    \/ \E p \in Partitions : HandOut(m, p) \/ Commit(m, p)

CoordinatorActs(c) ==
    \/ Stand(c) \/ FillEpoch(c) \/ Run(c) \/ ReadBack(c) \/ FindItself(c) \/ SeeEndOfTerm(c)
    \/ RestartCoordinator(c) \/ ResumeCoordinator(c) \/ CoordinatorSessionEnds(c)
    \/ ArriveWrite(c) \/ DecideAskedEviction(c)
    \/ \E m \in Members :
          DecideClean(c, m) \/ DecideEvict(c, m) \/ NoteOrphans(c, m) \/ DecideCommand(c, m)
    \/ \E p \in Partitions : DecideFree(c, p)

Trouble ==
    \/ \E m \in Members : CrashMember(m) \/ PauseMember(m) \/ AskEviction(m)
    \/ \E c \in Coordinators : CrashCoordinator(c) \/ PauseCoordinator(c)
    \/ \E p \in Partitions : \E v \in 0 .. MaxOffset : ResetOffset(p, v)
    \/ PauseGroup \/ StepDown \/ EditEpoch

Next ==
    \/ \E m \in Members : MemberActs(m)
    \/ \E c \in Coordinators : CoordinatorActs(c)
    \/ Arrive \/ ResumeGroup \/ Trouble

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What must hold (docs/protocol.md, docs/simulator.md).                   *)
(***************************************************************************)
\* At most one coordinator per epoch; epochs rise.
I1 ==
    /\ "I1" \notin bad
    /\ \A c, d \in Coordinators :
          c # d /\ co[c].st = "leads" /\ co[d].st = "leads" => co[c].epoch # co[d].epoch
\* Nothing of an epoch is written after a later one has begun.
I2 == "I2" \notin bad
\* No partition is handed out by two members.
I3 == \A p \in Partitions : \A m, n \in Members : MayHandOut(m, p) /\ MayHandOut(n, p) => m = n
\* Offsets go back by an operator's reset only.
I4 == "I4" \notin bad
\* Who commits owns.
I5 == "I5" \notin bad
\* One command is outstanding per member, and none comes twice.
I6 == "I6" \notin bad
\* A partition is started where it has no owner, and nobody else is being started with it.
I7 == "I7" \notin bad
\* Nobody is evicted who has answered.
Eviction == "Eviction" \notin bad

CommandsOk ==
    \A m \in Members : \A k \in zk.cmds[m] :
        k.kind \in {"start", "stop"} /\ k.parts \subseteq Partitions /\ k.epoch \in Nat

TypeOk ==
    /\ zk.leader \in Coordinators \cup {None}
    /\ \A p \in Partitions : zk.owner[p] \in Members \cup {None} /\ zk.off[p] \in 0 .. MaxOffset
    /\ \A m \in Members : zk.reg[m] => zk.sess[m]
    /\ \A p \in Partitions : zk.owner[p] # None => zk.sess[zk.owner[p]]
    /\ CommandsOk
    /\ \A m \in Members : mem[m].st \in {"out", "in", "dead"} /\ mem[m].giving \subseteq mem[m].held

\* What a member holds and may hand out, its session owns, unless it has yet to hear of its end.
\* (Not an invariant of the product's promises, but why they hold.)
HeldIsOwned ==
    \A m \in Members : Writes(m) /\ zk.reg[m] =>
        \A p \in mem[m].held : zk.owner[p] = m

(***************************************************************************)
(* Every step is a transaction that Transactions allows, or changes no     *)
(* node.                                                                   *)
(***************************************************************************)
AsCommand(m, k) ==
    [m |-> m, kind |-> k.kind, parts |-> k.parts, epoch |-> k.epoch, old |-> k.old]

AsNodes ==
    [leader |-> zk.leader, epoch |-> zk.epoch, top |-> zk.top, reg |-> {m \in Members : zk.reg[m]},
     owner |-> zk.owner, cmds |-> UNION {{AsCommand(m, k) : k \in zk.cmds[m]} : m \in Members},
     off |-> zk.off]

T == INSTANCE Transactions WITH n <- AsNodes

Refines ==
    [][T!Next(Coordinators, AsNodes.cmds' \ AsNodes.cmds, {zk.epoch, zk'.epoch}, 0 .. MaxOffset)]_AsNodes

(***************************************************************************)
(* Liveness: once faults are over (their number is bounded), every         *)
(* partition is owned and handed out by one member, for ever.              *)
(***************************************************************************)
Fair ==
    /\ \A m \in Members :
          /\ WF_vars(Join(m)) /\ WF_vars(Renew(m)) /\ WF_vars(SeeEviction(m))
          /\ WF_vars(SeeExpiry(m)) /\ WF_vars(Take(m))
          /\ WF_vars(AckStop(m)) /\ WF_vars(AckStart(m)) /\ WF_vars(HearAnswer(m))
          /\ WF_vars(Settle(m)) /\ WF_vars(RestartMember(m)) /\ WF_vars(ResumeMember(m))
          /\ WF_vars(LeaseEnds(m)) /\ WF_vars(ProofAges(m))
          /\ WF_vars(mem[m].st = "dead" /\ SessionEnds(m))
    /\ \A c \in Coordinators :
          /\ WF_vars(Stand(c)) /\ WF_vars(FillEpoch(c)) /\ WF_vars(Run(c)) /\ WF_vars(ReadBack(c))
          /\ WF_vars(FindItself(c)) /\ WF_vars(SeeEndOfTerm(c)) /\ WF_vars(ResumeCoordinator(c))
          /\ WF_vars(RestartCoordinator(c))
          /\ WF_vars(co[c].st = "dead" /\ CoordinatorSessionEnds(c))
          /\ WF_vars(ArriveWrite(c)) /\ WF_vars(DecideAskedEviction(c))
          /\ \A m \in Members :
                /\ WF_vars(NoteOrphans(c, m)) /\ WF_vars(DecideCommand(c, m))
                /\ WF_vars(DecideClean(c, m)) /\ WF_vars(DecideEvict(c, m))
          /\ \A p \in Partitions : WF_vars(DecideFree(c, p))
    /\ WF_vars(Arrive) /\ WF_vars(ResumeGroup)

FairSpec == Spec /\ Fair

\* Sound for invariants only: no name is preferred to another.
Symmetry == Permutations(Members) \cup Permutations(Partitions) \cup Permutations(Coordinators)

Served(p) == \E m \in Members : zk.owner[p] = m /\ zk.reg[m] /\ ~mem[m].away /\ MayHandOut(m, p)

I8 == <>[](\A p \in Partitions : Served(p))
=============================================================================
