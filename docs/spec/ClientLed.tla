------------------------------ MODULE ClientLed ------------------------------
(***************************************************************************)
(* Groups whose leader is a client (Kafka Connect, Kafka Streams): what    *)
(* the coordinator writes down before it answers, and how another one goes *)
(* on from that.  docs/spec/README.md says what is left out.               *)
(*                                                                         *)
(* A client asks through a gateway, whose request is a node that waits for *)
(* an answer, whoever coordinates.  The coordinator's machine is memory; a *)
(* group's state is one node, written in a multi that checks the epoch.    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Clients, Coordinators, None,
    Assignments,              \* what a leader may assign: it may say another thing each time
    ClientCrashes, CoordinatorCrashes, CoordinatorPauses, SlowClients, Commits

CONSTANTS  \* the rules
    WrittenBeforeJoined,      \* a generation is written before JoinGroup is answered
    WrittenBeforeAssigned,    \* an assignment is written before SyncGroup is answered
    EpochFence,               \* who was replaced decides nothing
    GenerationGoesOn,         \* a successor's generations begin above the one that it finds
    RequestsStay,             \* a successor asks its machine what was asked and not answered
    CommitChecksState         \* a commit checks the version of the group's state

VARIABLES
    zk,       \* epoch, who leads, the group's state and its version, the latest commit
    co,       \* the coordinators' memory
    cl,       \* what clients believe
    asks,     \* the requests' nodes
    left,     \* how many faults may still happen
    decided,  \* every generation that was ever written, with its members
    given,    \* every assignment that was ever written, with its generation
    bad

vars == <<zk, co, cl, asks, left, decided, given, bad>>

NewClient == [st |-> "idle", gen |-> 0, leads |-> FALSE, has |-> None, commit |-> None]

NewCoordinator ==
    [st |-> "standby", away |-> FALSE, epoch |-> 0, phase |-> "Empty", gen |-> 0, highest |-> 0,
     leader |-> None,
     seats |-> {},     \* members as the machine has them
     joined |-> {},    \* whose JoinGroup waits for the others
     synced |-> {},    \* whose SyncGroup waits for the leader's
     has |-> None,     \* the assignment
     pend |-> None]    \* what is being written

Nothing == [kind |-> "none", gen |-> 0, value |-> None]

Init ==
    /\ zk = [epoch |-> 0, leads |-> None, gen |-> 0, phase |-> "Empty", leader |-> None,
             members |-> {}, has |-> None, version |-> 0]
    /\ co = [c \in Coordinators |-> NewCoordinator]
    /\ cl = [x \in Clients |-> NewClient]
    /\ asks = [x \in Clients |-> [ask |-> Nothing, answer |-> Nothing]]
    /\ left = [crash |-> ClientCrashes, ccrash |-> CoordinatorCrashes,
               cpause |-> CoordinatorPauses, slow |-> SlowClients, commit |-> Commits]
    /\ decided = {}
    /\ given = {}
    /\ bad = {}

Spend(fault) == left[fault] > 0 /\ left' = [left EXCEPT ![fault] = @ - 1]

(***************************************************************************)
(* Clients, and the gateways that speak for them.                          *)
(***************************************************************************)
Waits(x) == asks[x].ask.kind # "none"

Puts(x, kind, gen, value) ==
    asks' = [asks EXCEPT ![x] = [ask |-> [kind |-> kind, gen |-> gen, value |-> value],
                                 answer |-> Nothing]]

\* Whether a heartbeat would say that a rebalance is on: what gateways see of a group.
ToJoinAgain(x) ==
    \/ cl[x].gen # zk.gen \/ x \notin zk.members
    \/ \E c \in Coordinators : zk.leads = c /\ co[c].phase = "Preparing"

AskJoin(x) ==
    /\ ~Waits(x)
    /\ \/ cl[x].st = "idle"
       \/ cl[x].st \in {"joined", "stable"} /\ ToJoinAgain(x)
    /\ Puts(x, "join", 0, None)
    /\ cl' = [cl EXCEPT ![x].st = "joining", ![x].commit = None]
    /\ UNCHANGED <<zk, co, left, decided, given, bad>>

\* The leader brings an assignment with its SyncGroup.
AskSync(x) ==
    /\ ~Waits(x) /\ cl[x].st = "joined"
    /\ \E v \in Assignments :
          Puts(x, "sync", cl[x].gen, IF cl[x].leads THEN v ELSE None)
    /\ cl' = [cl EXCEPT ![x].st = "syncing"]
    /\ UNCHANGED <<zk, co, left, decided, given, bad>>

\* The answer's node is read, and deleted.
Hear(x) ==
    /\ asks[x].answer.kind # "none"
    /\ LET a == asks[x].answer
       IN  /\ cl' = [cl EXCEPT ![x] =
                CASE a.kind = "joined" ->
                        [@ EXCEPT !.st = "joined", !.gen = a.gen, !.leads = (a.value = x),
                                  !.has = None]
                  [] a.kind = "assigned" -> [@ EXCEPT !.st = "stable", !.has = a.value]
                  [] OTHER -> [NewClient EXCEPT !.gen = cl[x].gen]]
           /\ bad' = bad
                \cup (IF a.kind = "joined" /\ ~\E d \in decided : d.gen = a.gen /\ x \in d.members
                      THEN {"L2"} ELSE {})
                \cup (IF a.kind = "assigned" /\ <<cl[x].gen, a.value>> \notin given
                      THEN {"L3"} ELSE {})
    /\ asks' = [asks EXCEPT ![x] = [ask |-> Nothing, answer |-> Nothing]]
    /\ UNCHANGED <<zk, co, left, decided, given>>

CrashClient(x) ==
    /\ cl[x].st # "dead" /\ Spend("crash")
    /\ cl' = [cl EXCEPT ![x] = [NewClient EXCEPT !.st = "dead"]]
    /\ asks' = [asks EXCEPT ![x] = [ask |-> Nothing, answer |-> Nothing]]
    /\ UNCHANGED <<zk, co, decided, given, bad>>

\* It comes back, under the name that it had (the model has no other), when it was noticed to be gone.
RestartClient(x) ==
    /\ cl[x].st = "dead"
    /\ cl' = [cl EXCEPT ![x] = NewClient]
    /\ UNCHANGED <<zk, co, asks, left, decided, given, bad>>

\* A gateway reads the state, then stores the offset in a multi that checks the state's version.
ReadToCommit(x) ==
    /\ cl[x].st = "stable" /\ cl[x].commit = None /\ Spend("commit")
    /\ x \in zk.members /\ cl[x].gen = zk.gen
    /\ cl' = [cl EXCEPT ![x].commit = zk.version]
    /\ UNCHANGED <<zk, co, asks, decided, given, bad>>

WriteCommit(x) ==
    /\ cl[x].commit # None
    /\ bad' = IF (cl[x].commit = zk.version \/ ~CommitChecksState)
                 /\ (x \notin zk.members \/ cl[x].gen # zk.gen)
              THEN bad \cup {"Commits"} ELSE bad
    /\ cl' = [cl EXCEPT ![x].commit = None]
    /\ UNCHANGED <<zk, co, asks, left, decided, given>>

(***************************************************************************)
(* The coordinator.                                                        *)
(***************************************************************************)
\* It is elected, and goes on from what is written.
Lead(c) ==
    /\ zk.leads = None /\ co[c].st = "standby" /\ ~co[c].away
    /\ zk' = [zk EXCEPT !.epoch = @ + 1, !.leads = c]
    /\ LET found == IF GenerationGoesOn \/ zk.gen = 0 THEN zk.gen ELSE zk.gen - 1
       IN  co' = [co EXCEPT ![c] =
            [NewCoordinator EXCEPT !.st = "leads", !.epoch = zk.epoch + 1, !.phase = zk.phase,
                                   !.gen = found, !.highest = found, !.leader = zk.leader,
                                   !.seats = zk.members, !.has = zk.has]]
    \* Without the rule, what was asked of another coordinator is forgotten.
    /\ asks' = IF RequestsStay THEN asks
               ELSE [x \in Clients |-> IF asks[x].answer = Nothing
                                       THEN [asks[x] EXCEPT !.ask.kind =
                                                IF @ = "none" THEN "none" ELSE "lost"]
                                       ELSE asks[x]]
    /\ UNCHANGED <<cl, left, decided, given, bad>>

Works(c) == co[c].st = "leads" /\ ~co[c].away /\ co[c].pend = None

\* An answer is written into the request's node, in a multi that checks the epoch, too.
Answers(c) == zk.epoch = co[c].epoch \/ ~EpochFence

AnswerAll(c, who, kind, gen, value) ==
    [x \in Clients |->
        IF x \in who /\ Answers(c) /\ asks[x].ask.kind # "none" /\ asks[x].answer = Nothing
        THEN [asks[x] EXCEPT !.answer = [kind |-> kind, gen |-> gen, value |-> value]]
        ELSE asks[x]]

Answered(c, x, kind, gen, value) == AnswerAll(c, {x}, kind, gen, value)

\* A JoinGroup that nobody has taken up.  Who has joined already, as the state says, is told so.
TakeJoin(c, x) ==
    /\ Works(c) /\ asks[x].ask.kind = "join" /\ asks[x].answer = Nothing
    /\ x \notin co[c].joined
    /\ LET r == co[c]
           told == /\ x \in r.seats
                   /\ r.phase = "Completing" \/ (r.phase = "Stable" /\ r.leader # x)
       IN  IF told
           THEN /\ asks' = Answered(c, x, "joined", r.gen, r.leader)
                /\ UNCHANGED co
           ELSE /\ co' = [co EXCEPT ![c] =
                    [@ EXCEPT !.phase = "Preparing", !.seats = @ \cup {x}, !.joined = @ \cup {x},
                              !.synced = {}]]
                \* Who waits for an assignment is told that a rebalance has begun.
                /\ asks' = AnswerAll(c, r.synced, "again", 0, None)
    /\ UNCHANGED <<zk, cl, left, decided, given, bad>>

\* All have joined, or it was waited for long enough: the next generation.
Complete(c) ==
    /\ Works(c) /\ co[c].phase = "Preparing"
    \* Who does not join is out when its time is over.  That one that lives is too slow is a fault.
    /\ \/ (\A x \in co[c].seats \ co[c].joined : cl[x].st = "dead") /\ UNCHANGED left
       \/ Spend("slow")
    /\ LET r == co[c]
           g == r.highest + 1
       IN  IF r.joined = {}
           THEN co' = [co EXCEPT ![c] =
                    [@ EXCEPT !.highest = g, !.seats = {},
                              !.pend = [what |-> "Empty", gen |-> g, leader |-> None,
                                        members |-> {}, has |-> None, there |-> FALSE]]]
           ELSE \E l \in r.joined :
                co' = [co EXCEPT ![c] =
                    [@ EXCEPT !.highest = g, !.seats = r.joined, !.leader = l,
                              !.pend = [what |-> "Completing", gen |-> g, leader |-> l,
                                        members |-> r.joined, has |-> None, there |-> FALSE]]]
    /\ asks' = IF WrittenBeforeJoined THEN asks
               ELSE AnswerAll(c, co[c].joined, "joined", co'[c].pend.gen, co'[c].pend.leader)
    /\ UNCHANGED <<zk, cl, decided, given, bad>>

\* A SyncGroup.  The leader's brings the assignment, which is written.
TakeSync(c, x) ==
    /\ Works(c) /\ asks[x].ask.kind = "sync" /\ asks[x].answer = Nothing
    /\ x \notin co[c].synced
    /\ LET r == co[c]
           ask == asks[x].ask
       IN  IF x \notin r.seats \/ ask.gen # r.gen \/ r.phase \in {"Preparing", "Empty"}
           THEN asks' = Answered(c, x, "again", 0, None) /\ UNCHANGED co
           ELSE IF r.phase = "Stable"
           THEN asks' = Answered(c, x, "assigned", r.gen, r.has) /\ UNCHANGED co
           ELSE /\ co' = [co EXCEPT ![c].synced = @ \cup {x},
                                    ![c].pend =
                            IF r.leader = x
                            THEN [what |-> "Stable", gen |-> r.gen, leader |-> r.leader,
                                  members |-> r.seats, has |-> ask.value, there |-> FALSE]
                            ELSE None]
                /\ asks' = IF r.leader = x /\ ~WrittenBeforeAssigned
                           THEN Answered(c, x, "assigned", r.gen, ask.value) ELSE asks
    /\ UNCHANGED <<zk, cl, left, decided, given, bad>>

\* A member is silent for its session timeout (dead), or brings no SyncGroup in time.
Silent(c, x) ==
    /\ Works(c) /\ x \in co[c].seats /\ cl[x].st = "dead" /\ co[c].phase # "Preparing"
    /\ co' = [co EXCEPT ![c] =
                [@ EXCEPT !.phase = "Preparing", !.seats = @ \ {x}, !.joined = {}, !.synced = {}]]
    /\ asks' = AnswerAll(c, co[c].synced, "again", 0, None)
    /\ UNCHANGED <<zk, cl, left, decided, given, bad>>

\* The multi arrives: check of the epoch's node, and the state.
Write(c) ==
    /\ co[c].pend # None /\ ~co[c].pend.there
    /\ LET w == co[c].pend
       IN  IF zk.epoch = co[c].epoch \/ ~EpochFence
           THEN /\ zk' = [zk EXCEPT !.gen = w.gen, !.phase = w.what, !.leader = w.leader,
                                    !.members = w.members, !.has = w.has, !.version = @ + 1]
                /\ decided' = decided \cup {[gen |-> w.gen, members |-> w.members]}
                /\ given' = IF w.what = "Stable" THEN given \cup {<<w.gen, w.has>>} ELSE given
                /\ bad' = bad
                     \cup (IF w.gen < zk.gen \/ \E d \in decided : d.gen = w.gen
                                                                 /\ d.members # w.members
                           THEN {"L1"} ELSE {})
                     \cup (IF w.what = "Stable" /\ \E a \in Assignments :
                                a # w.has /\ <<w.gen, a>> \in given
                           THEN {"L3"} ELSE {})
                     \cup (IF zk.epoch # co[c].epoch THEN {"I2"} ELSE {})
                /\ co' = [co EXCEPT ![c].pend.there = TRUE]
           ELSE /\ co' = [co EXCEPT ![c] = [NewCoordinator EXCEPT !.away = co[c].away]]
                /\ UNCHANGED <<zk, decided, given, bad>>
    /\ UNCHANGED <<cl, asks, left>>

\* Its answer is heard: who waits for it is told.
Written(c) ==
    /\ co[c].pend # None /\ co[c].pend.there /\ ~co[c].away /\ co[c].st = "leads"
    /\ LET w == co[c].pend
           told == IF w.what = "Completing" THEN co[c].joined ELSE co[c].synced
           kind == IF w.what = "Completing" THEN "joined" ELSE "assigned"
           value == IF w.what = "Completing" THEN w.leader ELSE w.has
       IN  /\ co' = [co EXCEPT ![c] =
                [@ EXCEPT !.pend = None, !.phase = w.what, !.gen = w.gen, !.has = w.has,
                          !.joined = {}, !.synced = {}]]
           /\ asks' = AnswerAll(c, told, kind, w.gen, value)
    /\ UNCHANGED <<zk, cl, left, decided, given, bad>>

CrashCoordinator(c) ==
    /\ co[c].st = "leads" /\ Spend("ccrash")
    \* What was sent may still arrive.
    /\ co' = [co EXCEPT ![c] = [@ EXCEPT !.st = "dead"]]
    /\ zk' = [zk EXCEPT !.leads = IF @ = c THEN None ELSE @]
    /\ UNCHANGED <<cl, asks, decided, given, bad>>

RestartCoordinator(c) ==
    /\ co[c].st = "dead" /\ IF co[c].pend = None THEN TRUE ELSE co[c].pend.there
    /\ co' = [co EXCEPT ![c] = NewCoordinator]
    /\ UNCHANGED <<zk, cl, asks, left, decided, given, bad>>

\* It stands still until its session is over, and goes on as if nothing had been.
PauseCoordinator(c) ==
    /\ co[c].st = "leads" /\ ~co[c].away /\ Spend("cpause")
    /\ co' = [co EXCEPT ![c].away = TRUE]
    /\ zk' = [zk EXCEPT !.leads = IF @ = c THEN None ELSE @]
    /\ UNCHANGED <<cl, asks, decided, given, bad>>

ResumeCoordinator(c) ==
    /\ co[c].away
    /\ co' = [co EXCEPT ![c].away = FALSE]
    /\ UNCHANGED <<zk, cl, asks, left, decided, given, bad>>

\* It learns that its session is over.
SeeEndOfTerm(c) ==
    /\ co[c].st = "leads" /\ ~co[c].away /\ zk.leads # c
    /\ co' = [co EXCEPT ![c] = NewCoordinator]
    /\ UNCHANGED <<zk, cl, asks, left, decided, given, bad>>

(***************************************************************************)
(* All together.                                                           *)
(***************************************************************************)
Next ==
    \/ \E x \in Clients :
          \/ AskJoin(x) \/ AskSync(x) \/ Hear(x) \/ CrashClient(x) \/ RestartClient(x)
          \/ ReadToCommit(x) \/ WriteCommit(x)
    \/ \E c \in Coordinators :
          \/ Lead(c) \/ Complete(c) \/ Write(c) \/ Written(c)
          \/ CrashCoordinator(c) \/ RestartCoordinator(c) \/ PauseCoordinator(c)
          \/ ResumeCoordinator(c) \/ SeeEndOfTerm(c)
          \/ \E x \in Clients : TakeJoin(c, x) \/ TakeSync(c, x) \/ Silent(c, x)

Spec == Init /\ [][Next]_vars

\* Generations do not go back, and each is decided once.
L1 == "L1" \notin bad
\* Who is told that it has joined is in a generation that was written before.
L2 == "L2" \notin bad
\* Who is told what it has is told what was written for its generation, and that is written once.
L3 ==
    /\ "L3" \notin bad
    /\ \A x, y \in Clients :
          cl[x].st = "stable" /\ cl[y].st = "stable" /\ cl[x].gen = cl[y].gen
            => cl[x].has = cl[y].has
\* A commit is stored by a member of the generation that is decided.
FencedCommits == "Commits" \notin bad
\* Nothing of an epoch is written after a later one has begun.
I2 == "I2" \notin bad

TypeOk ==
    /\ zk.gen \in Nat /\ zk.members \subseteq Clients
    /\ \A c \in Coordinators : co[c].joined \subseteq co[c].seats

Fair ==
    /\ \A x \in Clients :
          WF_vars(AskJoin(x)) /\ WF_vars(AskSync(x)) /\ WF_vars(Hear(x))
          /\ WF_vars(RestartClient(x)) /\ WF_vars(WriteCommit(x))
    /\ \A c \in Coordinators :
          /\ WF_vars(Lead(c)) /\ WF_vars(Complete(c)) /\ WF_vars(Write(c)) /\ WF_vars(Written(c))
          /\ WF_vars(RestartCoordinator(c)) /\ WF_vars(ResumeCoordinator(c))
          /\ WF_vars(SeeEndOfTerm(c))
          /\ \A x \in Clients :
                WF_vars(TakeJoin(c, x)) /\ WF_vars(TakeSync(c, x)) /\ WF_vars(Silent(c, x))

FairSpec == Spec /\ Fair

\* Sound for invariants only: no name is preferred to another.
Symmetry == Permutations(Clients) \cup Permutations(Coordinators) \cup Permutations(Assignments)

\* In the end all live in one generation, by the assignment that was written for it.
Settled ==
    /\ zk.phase = "Stable" /\ zk.members = Clients
    /\ \A x \in Clients : cl[x].st = "stable" /\ cl[x].gen = zk.gen /\ cl[x].has = zk.has

L5 == <>[]Settled
=============================================================================
