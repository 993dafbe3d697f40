"""The answer, for people and for programs."""

from __future__ import annotations

from typing import Any

from consumer.spark.audit.run import SparkAudit
from consumer.spark.audit.sorting import Order
from zkcoord.verdict.rules import Rule

FINDINGS_SHOWN = 20


def table(audit: SparkAudit) -> list[str]:
    """Lines; the verdict's sentence is not among them."""
    verdict, processes = audit.verdict, audit.processes
    reports = verdict.partitions
    lines = [
        "",
        f"Audit of {audit.options.journal}"
        + (f" and {audit.options.records}" if audit.options.records is not None else "")
        + f" ({ordered(audit)})",
    ]
    figures: list[tuple[str, int]] = [
        ("consumers", len(processes.last_ns)),
        ("partitions", len(reports)),
        ("ownerships", sum(report.owners for report in reports)),
        ("rebalances in the coordinators' journals", len(verdict.rebalances)),
        ("records handed out", sum(report.delivered for report in reports)),
    ]
    if audit.options.records is not None:
        figures.append(
            (
                f"records in the output ({audit.options.plan.value} plan)",
                sum(report.found for report in reports),
            )
        )
    figures.append(
        (
            "there again after a kill -9, not yet committed: excused",
            sum(report.excused for report in reports),
        )
    )
    figures += [(rule.value, verdict.amount(rule)) for rule in Rule]
    lines += [f"  {name:<64} {value:>22,}" for name, value in figures]
    lines += verdict.wrong(FINDINGS_SHOWN)
    if verdict.unreadable:
        lines.append(f"  {verdict.unreadable} lines of the journals could not be read")
    if processes.holes:
        lines.append(
            f"  the coordinators' journals lack {processes.holes} records that could not be written"
        )
    return [*lines, ""]


def ordered(audit: SparkAudit) -> str:
    """What ordered the ownerships."""
    hosts = len(audit.processes.hosts)
    if audit.order is Order.ZOOKEEPER:
        return f"ownerships in ZooKeeper's order, {hosts} hosts"
    return "ownerships by time" + (
        f": the clocks of {hosts} hosts are trusted" if hosts > 1 else ""
    )


def report(audit: SparkAudit) -> dict[str, Any]:
    """For programs."""
    verdict = audit.verdict
    return {
        "what": "audit",
        "verdict": verdict.sentence,
        "clean": verdict.clean,
        "order": audit.order.value,
        "plan": audit.options.plan.value if audit.options.records is not None else None,
        "hosts": sorted(audit.processes.hosts),
        "consumers": sorted(audit.processes.last_ns),
        "unreadable": verdict.unreadable,
        "holes": audit.processes.holes,
        "rules": {
            rule.value: {"amount": verdict.amount(rule), "definition": rule.definition}
            for rule in Rule
        },
        "partitions": {
            str(r.partition): {
                "expected": r.produced,
                "handed_out": r.delivered,
                "found": r.found,
                "excused": r.excused,
                "owners": r.owners,
                **{rule.value: n for rule, n in r.amounts.items()},
            }
            for r in verdict.partitions
        },
        "findings": [
            {
                "partition": str(finding.partition),
                "rule": finding.rule.value,
                "amount": finding.amount,
                "offset": finding.first,
                "text": finding.text,
            }
            for finding in verdict.findings
        ],
    }
