"""A standalone Spark cluster on this machine, a master and a worker, and applications on it: what
is sent to executors in the ways that docs/spark.md gives. The application is cluster_app.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from tests.harness.wait import wait_until
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.spark_java import spark_java_home

ROOT = Path(__file__).parents[2]
START_S = 300.0
RUN_S = 550.0
HOME = Path(pyspark.__file__).parent
SCALA = next((HOME / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]

LACKS = "raise ModuleNotFoundError(\"No module named 'consumer'\", name='consumer')\n"


def environment() -> dict[str, str]:
    """Of servers and applications: nothing of this process's Python."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")},
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(HOME),
        # a worker looks for it in folders of a build, which a package has not
        "SPARK_SCALA_VERSION": SCALA,
        "SPARK_LOCAL_IP": HOST,
        "PYTHONPATH": "",
    }


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Its master's address."""
    (port,) = free_ports(1)
    servers: list[subprocess.Popen[bytes]] = []
    logs = (folder / "master.log", folder / "worker.log")
    arguments = (
        ("master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"),
        (
            *("worker.Worker", "--host", HOST, "--cores", "1", "--memory", "1g"),
            *("--webui-port", "0", "--work-dir", str(folder / "work"), f"spark://{HOST}:{port}"),
        ),
    )
    try:
        for log, (name, *rest), said in zip(
            logs, arguments, ("I have been elected leader", "Successfully registered"), strict=True
        ):
            with log.open("wb") as out:
                servers.append(
                    subprocess.Popen(
                        [
                            str(spark_java_home() / "bin" / "java"),
                            *("-cp", f"{HOME}/jars/*", "-Xmx256m"),
                            f"org.apache.spark.deploy.{name}",
                            *rest,
                        ],
                        env=environment(),
                        cwd=folder,
                        stdout=out,
                        stderr=out,
                    )
                )
            wait_until(
                lambda log=log, said=said: said in log.read_text(errors="replace"),
                START_S,
                f"{said!r} in {log.name}",
            )
        yield f"spark://{HOST}:{port}"
    finally:
        for server in reversed(servers):
            server.kill()
            server.wait(START_S)


def python_with(folder: Path, packages: Iterable[str] = ("consumer", "zkcoord")) -> Path:
    """A Python in this folder, as an environment that is packed for executors has one: `bin/python`
    with the dependencies of this one and its own copy of these packages of the repository.
    """
    (folder / "bin").mkdir(parents=True)
    own = folder / "packages"
    own.mkdir()
    for name in packages:
        (own / name).symlink_to(ROOT / name)
    python = folder / "bin" / "python"
    python.write_text(
        "#!/bin/sh\n"
        'here=$(cd "$(dirname "$0")/.." && pwd)\n'
        'export PYTHONPATH="$here/packages:$PYTHONPATH"\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return python


def python_without(folder: Path, only_executors: bool) -> Path:
    """The same without zkcoord, everywhere or in the folder of an executor only."""
    python = python_with(folder)
    (folder / "nothing").mkdir()
    (folder / "nothing" / "consumer.py").write_text(LACKS)
    where = "*/app-*" if only_executors else "*"
    text = python.read_text()
    python.write_text(
        text.replace(
            "exec",
            f'case "$PWD" in {where}) export PYTHONPATH="$here/nothing:$PYTHONPATH";; esac\nexec',
        )
    )
    return python


def packed(folder: Path, archive: Path) -> None:
    """As `venv-pack` packs an environment: files, not links."""
    with tarfile.open(archive, "w:gz", dereference=True) as out:
        for path in sorted(folder.iterdir()):
            out.add(path, path.name, filter=_without_caches)


def _without_caches(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.endswith("__pycache__") else info


def run(
    master: str, folder: Path, arguments: Iterable[str], *submit: str, **env: str
) -> dict[str, Any]:
    """What an application says: spark-submit in client mode, in `folder`."""
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", master, "--driver-memory", "500m", "--executor-memory", "600m"),
        *("--conf", "spark.ui.enabled=false", "--conf", f"spark.driver.host={HOST}"),
        *("--conf", f"spark.driver.bindAddress={HOST}", "--conf", "spark.task.maxFailures=1"),
        *submit,
        str(Path(__file__).with_name("cluster_app.py")),
        *arguments,
    ]
    done = subprocess.run(
        command,
        env={**environment(), **env},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    found: dict[str, Any] = {"log": done.stdout}
    for line in done.stdout.splitlines():
        if re.match(r'\{"(registered|from|rows)"', line):
            found.update(json.loads(line))
    return found
