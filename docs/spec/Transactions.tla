---------------------------- MODULE Transactions ----------------------------
(***************************************************************************)
(* What may happen to one group's nodes in ZooKeeper, one transaction      *)
(* after the other, whatever processes believe: the protocol as somebody   *)
(* sees it who reads ZooKeeper's log.                                      *)
(*                                                                         *)
(* It stands between the two others: every step of Coordination is one of  *)
(* these or changes no node (TLC checks that, property Refines there), and *)
(* so is every transaction of the simulator's runs of the product's code   *)
(* (module Traces).                                                        *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS Members, Partitions, None

VARIABLE n  \* the nodes

\* leader: who leads (None: the seat is free).  epoch: 0 where its node is missing, empty or
\* unreadable; top: the highest that there ever was.  cmds: what is outstanding, as
\* [m, kind, parts, epoch, old]; old: its member's registration is not the one that it is for.
Nodes ==
    [leader |-> None, epoch |-> 0, top |-> 0, reg |-> {}, owner |-> [p \in Partitions |-> None],
     cmds |-> {}, off |-> [p \in Partitions |-> 0]]

(***************************************************************************)
(* Coordinators.                                                           *)
(***************************************************************************)
\* Win the election: the leader's node and the next epoch in one multi.
Win(c, e) ==
    /\ n.leader = None /\ e = n.epoch + 1 /\ e > n.top
    /\ n' = [n EXCEPT !.leader = c, !.epoch = e, !.top = e]

\* A coordinator fills the epoch's node, with an epoch above all that there were.
Fill(e) ==
    /\ n.epoch = 0 /\ e > n.top
    /\ n' = [n EXCEPT !.epoch = e, !.top = e]

LeaderGone == n' = [n EXCEPT !.leader = None]

BeingStarted(p) == \E k \in n.cmds : k.kind = "start" /\ p \in k.parts

\* A command, in the epoch that is in force.  At most one is outstanding for each registration; a
\* partition is started that nobody owns or is being started with.  (A stranger's owner node may
\* appear at any moment: it is left out of the ack.)
Send(k) ==
    /\ k.epoch = n.epoch
    /\ ~\E j \in n.cmds : j.m = k.m /\ ~j.old /\ j.epoch = n.epoch
    /\ k.kind = "start" => \A p \in k.parts : n.owner[p] \notin Members /\ ~BeingStarted(p)
    /\ n' = [n EXCEPT !.cmds = @ \cup {k}]

\* A command of an older epoch, of an earlier registration, or of a member that is gone.
Clean(k) ==
    /\ k \in n.cmds
    /\ k.old \/ k.epoch < n.epoch \/ k.m \notin n.reg
    /\ n' = [n EXCEPT !.cmds = @ \ {k}]

\* Who has not answered in time: ONE multi, the overdue command among what goes.
Evict(k) ==
    /\ k \in n.cmds /\ k.m \in n.reg /\ ~k.old /\ k.epoch = n.epoch
    /\ n' = [n EXCEPT !.reg = @ \ {k.m}, !.cmds = {j \in @ : j.m # k.m}]

\* Whom an operator wants out, or who has no channel to be commanded through.
PutOut(m) ==
    /\ m \in n.reg
    /\ n' = [n EXCEPT !.reg = @ \ {m}]

\* An owner node whose registration is gone.
Free(p) ==
    /\ n.owner[p] # None /\ n.owner[p] \notin n.reg
    /\ n' = [n EXCEPT !.owner[p] = None]

(***************************************************************************)
(* Members.                                                                *)
(***************************************************************************)
\* (Who registers a second time in one session, since the first was deleted, has another
\* registration: commands for the first are void.)
Register(m) ==
    /\ m \notin n.reg
    /\ n' = [n EXCEPT !.reg = @ \cup {m},
                      !.cmds = {IF k.m = m THEN [k EXCEPT !.old = TRUE] ELSE k : k \in @}]

\* A session ends: all that is ephemeral goes at once.  Commands stay, for nobody.
SessionOver(m) ==
    n' = [n EXCEPT !.reg = @ \ {m},
                   !.owner = [p \in Partitions |-> IF @[p] = m THEN None ELSE @[p]],
                   !.cmds = {IF k.m = m THEN [k EXCEPT !.old = TRUE] ELSE k : k \in @}]

StopAcked(k, parts, values) ==
    /\ k \in n.cmds /\ k.kind = "stop" /\ k.m \in n.reg
    /\ parts \subseteq k.parts
    /\ \A p \in parts : n.owner[p] = k.m /\ values[p] >= n.off[p]
    /\ n' = [n EXCEPT !.cmds = @ \ {k},
                      !.owner = [p \in Partitions |-> IF p \in parts THEN None ELSE @[p]],
                      !.off = [p \in Partitions |-> IF p \in parts THEN values[p] ELSE @[p]]]

StartAcked(k, parts, values) ==
    /\ k \in n.cmds /\ k.kind = "start" /\ k.m \in n.reg
    /\ parts \subseteq k.parts
    /\ \A p \in parts : n.owner[p] = None
    /\ n' = [n EXCEPT !.cmds = @ \ {k},
                      !.owner = [p \in Partitions |-> IF p \in parts THEN k.m ELSE @[p]],
                      !.off = [p \in Partitions |-> IF p \in parts THEN values[p] ELSE @[p]]]

\* What only tells something, or sends away, is deleted.
Read(k) ==
    /\ k \in n.cmds /\ k.kind = "notify" /\ k.m \in n.reg
    /\ n' = [n EXCEPT !.cmds = @ \ {k}]

\* A changed subscription: another registration in the same session.  Commands are void by that,
\* and those that the member knows of are deleted.
Resubscribe(m, known) ==
    /\ m \in n.reg
    /\ n' = [n EXCEPT !.cmds =
                {IF k.m = m THEN [k EXCEPT !.old = TRUE] ELSE k : k \in @ \ known}]

\* Owner nodes of its own that a member gives back without a command: their topic, or their offset,
\* is not there any more.
GiveBack(m, parts) ==
    /\ m \in n.reg /\ \A p \in parts : n.owner[p] = m
    /\ n' = [n EXCEPT !.owner = [p \in Partitions |-> IF p \in parts THEN None ELSE @[p]]]

Commit(m, values) ==
    /\ m \in n.reg
    /\ \A p \in DOMAIN values : n.owner[p] = m /\ values[p] >= n.off[p]
    /\ n' = [n EXCEPT !.off = [p \in Partitions |->
                                 IF p \in DOMAIN values THEN values[p] ELSE @[p]]]

(***************************************************************************)
(* Everybody else: operators, tools, whoever has the rights.               *)
(***************************************************************************)
SetOffset(p, value) == n' = [n EXCEPT !.off[p] = value]

SetOwner(p, who) == n' = [n EXCEPT !.owner[p] = who]

Withdraw(k) == n' = [n EXCEPT !.cmds = @ \ {k}]

EditEpoch(e) == n' = [n EXCEPT !.epoch = e, !.top = IF e > @ THEN e ELSE @]

Next(Anybody, Commands, Epochs, Values) ==
    \/ LeaderGone
    \/ \E c \in Anybody, e \in Epochs : Win(c, e)
    \/ \E e \in Epochs : Fill(e) \/ EditEpoch(e)
    \/ \E k \in Commands : Send(k)
    \/ \E k \in n.cmds :
          \/ Clean(k) \/ Evict(k)
          \/ \E parts \in SUBSET k.parts :
                \/ \E v \in [parts -> Values] : StopAcked(k, parts, v)
                \/ StartAcked(k, parts, n.off)
    \/ \E m \in Members : PutOut(m) \/ Register(m) \/ SessionOver(m)
    \/ \E p \in Partitions : Free(p) \/ \E v \in Values : SetOffset(p, v)
    \/ \E m \in Members, p \in Partitions, v \in Values : Commit(m, [q \in {p} |-> v])
=============================================================================
