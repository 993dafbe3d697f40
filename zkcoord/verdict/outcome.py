"""What comes out: the verdict over a run, the same whichever engine ran the rules over its
facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zkcoord.verdict.facts import RebalanceSeen
from zkcoord.verdict.rules import Finding, PartitionReport, Rule


@dataclass
class ScenarioStep:
    """One step of a scenario. `took_ms`: from what is counted from (`StepBalanced.clock_ns`) to the
    first fetch response of the last partition that came; None when none did.
    """

    name: str
    quiet: bool
    t_ns: int
    took_ms: float | None = None
    balanced_ns: int | None = None
    fetched: int = 0
    commands: int = 0
    moves: int = 0
    last_fetch_ns: int = 0


@dataclass
class Verdict:
    """The judgement of a run. `clean` means that no rule found anything, every quiet step was
    quiet, and nothing failed otherwise (`failures`, which the scenario adds).
    """

    partitions: list[PartitionReport] = field(default_factory=list)
    steps: list[ScenarioStep] = field(default_factory=list)
    rebalances: list[RebalanceSeen] = field(default_factory=list)
    unreadable: int = 0
    failures: list[str] = field(default_factory=list)

    def amount(self, rule: Rule) -> int:
        """Records or events that a rule found, of all partitions."""
        return sum(report.amounts.get(rule, 0) for report in self.partitions)

    @property
    def findings(self) -> list[Finding]:
        """Examples of what is wrong, in order of time."""
        return sorted(
            (finding for report in self.partitions for finding in report.examples),
            key=lambda finding: finding.t_ns,
        )

    def wrong(self, most: int) -> list[str]:
        """The first findings as lines of a report; none when nothing was found."""
        found = self.findings
        lines = (
            ["", "What is wrong"]
            + [
                f"  {finding.partition}: {finding.rule.value}: {finding.text}"
                for finding in found[:most]
            ]
            if found
            else []
        )
        return lines + ([f"  ... and {len(found) - most} more"] if len(found) > most else [])

    @property
    def noisy(self) -> list[ScenarioStep]:
        """Quiet steps that were not."""
        return [
            step
            for step in self.steps
            if step.quiet and (step.commands or step.moves or step.fetched)
        ]

    @property
    def reasons(self) -> list[str]:
        """What is wrong, in a few words each; empty when clean."""
        found = [f"{self.amount(rule)} {rule.value}" for rule in Rule if self.amount(rule)]
        found += [
            f"{step.commands} commands and {step.moves + step.fetched} changes of ownership in the"
            f" quiet step '{step.name}'"
            for step in self.noisy
        ]
        if not any(report.produced for report in self.partitions):
            found.append("nothing was produced")
        return found + self.failures

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.reasons

    @property
    def sentence(self) -> str:
        """The last line of a report."""
        return "VERDICT: clean" if self.clean else f"VERDICT: not clean: {', '.join(self.reasons)}"
