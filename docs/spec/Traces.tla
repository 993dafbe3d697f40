------------------------------- MODULE Traces -------------------------------
(***************************************************************************)
(* Whether recorded runs of the product's code (tests/spec/record.py) are  *)
(* behaviours of Transactions.  Recorded holds them: a sequence of runs,   *)
(* each a sequence of events, which say what a transaction was and under   *)
(* which conditions ZooKeeper was asked to do it.  Where an event is not   *)
(* allowed TLC finds no next step: a deadlock, at that event.              *)
(***************************************************************************)
EXTENDS Transactions, Sequences, Recorded

VARIABLES run, at

Init == run \in 1 .. Len(Runs) /\ at = 1 /\ n = Nodes

Event == Runs[run][at]

\* The command with this number.  (The number is of the recording; no rule looks at it.)
Numbered(id) == CHOOSE k \in n.cmds : k.id = id
IsThere(id) == \E k \in n.cmds : k.id = id

Step(e) ==
    CASE e.do = "win" -> e.fenced /\ Win(e.c, e.epoch)
      [] e.do = "fill" -> Fill(e.epoch)
      [] e.do = "vacate" -> LeaderGone
      [] e.do = "send" -> e.fenced /\ Send(e.k)
      [] e.do = "clean" -> e.fenced /\ IsThere(e.id) /\ Clean(Numbered(e.id))
      [] e.do = "evict" -> e.fenced /\ IsThere(e.id) /\ Evict(Numbered(e.id))
      [] e.do = "putout" -> e.fenced /\ PutOut(e.m)
      [] e.do = "free" -> e.fenced /\ ~e.fetched /\ Free(e.p)
      [] e.do = "register" -> Register(e.m)
      [] e.do = "over" -> SessionOver(e.m)
      [] e.do = "stop" -> e.fenced /\ IsThere(e.id) /\ StopAcked(Numbered(e.id), e.parts, e.values)
      [] e.do = "start" ->
            e.fenced /\ IsThere(e.id) /\ StartAcked(Numbered(e.id), e.parts, e.values)
      [] e.do = "read" -> e.fenced /\ IsThere(e.id) /\ Read(Numbered(e.id))
      [] e.do = "again" -> e.fenced /\ Resubscribe(e.m, {k \in n.cmds : k.id \in e.known})
      [] e.do = "giveback" -> e.fenced /\ GiveBack(e.m, e.parts)
      [] e.do = "commit" -> e.fenced /\ Commit(e.m, e.values)
      [] e.do = "offset" -> SetOffset(e.p, e.value)
      [] e.do = "owner" -> SetOwner(e.p, IF e.who = "nobody" THEN None ELSE e.who)
      [] e.do = "withdraw" -> IsThere(e.id) /\ Withdraw(Numbered(e.id))
      [] e.do = "epoch" -> EditEpoch(e.epoch)
      [] OTHER -> FALSE

Go == at <= Len(Runs[run]) /\ Step(Event) /\ at' = at + 1 /\ UNCHANGED run

Done == at > Len(Runs[run]) /\ UNCHANGED <<n, run, at>>

Spec == Init /\ [][Go \/ Done]_<<n, run, at>>
=============================================================================
