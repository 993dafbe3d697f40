"""Very many groups on a real server: `python -m tests.bench.scale_names [--groups N]`.

    python -m tests.bench.scale_names                  100,000 groups without members, half a minute
    python -m tests.bench.scale_names --groups 1000    to see what it prints

The groups' names are one answer, and the question is who takes it: a coordinator, which reads all
groups, and a Java client, as ZooKeeper's own tools are, with the limit that it has
(`jute.maxbuffer`) and with a larger one (needs a JDK). Two coordinators lead two roots of the
server meanwhile. The exit status is 0 when both were ready, whatever the Java client does.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench.running import measured_in_a_folder, say
from tests.bench.scale_rig import SESSION_MS, Rig
from tests.bench.scale_world import LAYOUT
from zkcoord.stack import jars
from zkcoord.zk.port import Children, GetChildren

GROUPS = 100_000
LARGER_BYTES = 128 * 1024 * 1024
JAVA_S = 120.0
SOURCE = """
import org.apache.zookeeper.ZooKeeper;
public class ListGroups {
    public static void main(String[] given) throws Exception {
        ZooKeeper session = new ZooKeeper(given[0], 30000, event -> {});
        try {
            System.out.println(session.getChildren(given[1], false).size() + " names");
        } catch (Exception failure) {
            System.out.println(failure.getMessage());
        }
        System.exit(0);
    }
}
"""


def listed_by_java(rig: Rig, path: str, *flags: str) -> str:
    """How many names a Java client gets, or why none."""
    source = rig.folder / "ListGroups.java"
    source.write_text(SOURCE, encoding="utf-8")
    command = [str(rig.java.executable), *rig.java.flags, *flags]
    command += ["-cp", jars.zookeeper_classpath(), str(source), rig.server.address, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_S, check=False)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


def run(folder: Path, groups: int) -> int:
    """Write, ask, print; the exit status."""
    rig = Rig(folder, say)
    with rig.running(), rig.hub(SESSION_MS) as (hub, seeder), rig.hub(SESSION_MS) as (other, _):
        seeder.make(
            LAYOUT.group(f"some-service.some-group-{number:06d}") for number in range(groups)
        )
        (answer,) = seeder.read(GetChildren(LAYOUT.groups_root))
        assert isinstance(answer, Children), answer
        size = sum(4 + len(name.encode()) for name in answer.names)
        say(f"{len(answer.names):,} names are {size:,} bytes of one answer")
        with (
            rig.coordinator(hub, "--counts") as first,
            rig.coordinator(other, "--counts") as second,
        ):
            for process in (first, second):
                ready, connected = process.said["ready"], process.said["connected"]
                say(
                    f"a coordinator of this server is ready: {ready['groups']:,} groups in"
                    f" {(ready['t'] - connected['t']) / 1e9:.1f} s, {ready['received']:,} bytes"
                    f" received, {ready['rss_mib']:.0f} MiB of memory"
                )
        path = f"{hub.chroot}{LAYOUT.groups_root}"
        say(f"a Java client as it is: {listed_by_java(rig, path)}")
        larger = f"-Djute.maxbuffer={LARGER_BYTES}"
        say(f"a Java client with {larger}: {listed_by_java(rig, path, larger)}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale_names",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", type=int, default=GROUPS)
    args = parser.parse_args(arguments)
    return measured_in_a_folder(lambda folder: run(folder, args.groups))


if __name__ == "__main__":
    raise SystemExit(main())
