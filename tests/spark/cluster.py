"""A standalone Spark cluster on this machine, a master and workers, and applications on it: what is
sent to executors in the ways that docs/spark.md gives. The application is cluster_app.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark

from tests.harness.wait import wait_until
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.spark_java import spark_java_home

ROOT = Path(__file__).parents[2]
START_S = 300.0
RUN_S = 550.0
HOME = Path(pyspark.__file__).parent
SCALA = next((HOME / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
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


class Cluster:
    """A master and workers, each a JVM. `env` is what executors find besides."""

    def __init__(
        self, folder: Path, cores: int = 1, memory: str = "1g", env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._cores = cores
        self._memory = memory
        self._env = {**environment(), **(env or {})}
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._begun = 0
        (port,) = free_ports(1)
        self.address = f"spark://{HOST}:{port}"

    @property
    def workers(self) -> list[str]:
        """Names of those that run."""
        return sorted(self._workers)

    def begin(self, workers: int) -> None:
        """A master, and so many workers, which it knows."""
        self._master = self._start(
            "master",
            "I have been elected leader",
            *("master.Master", "--host", HOST, "--port", self.address.rpartition(":")[2]),
            *("--webui-port", "0"),
        )
        for _ in range(workers):
            self.add_worker()

    def add_worker(self) -> str:
        """Another worker, which the master knows; its name."""
        self._begun += 1
        name = f"worker-{self._begun}"
        self._workers[name] = self._start(
            name,
            "Successfully registered",
            *("worker.Worker", "--host", HOST, "--cores", str(self._cores)),
            *("--memory", self._memory, "--webui-port", "0"),
            *("--work-dir", str(self._folder / "work" / name), self.address),
        )
        return name

    def executors(self, application: str = "") -> list[psutil.Process]:
        """The JVMs of the executors, the oldest first; of one application (its id), or of all."""
        found = []
        for worker in self._workers.values():
            with suppress(psutil.NoSuchProcess):
                for process in psutil.Process(worker.pid).children():
                    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                        command = process.cmdline()
                        if EXECUTOR in command and (not application or application in command):
                            found.append(process)
        return sorted(found, key=lambda process: process.create_time())

    def worker_of(self, executor: psutil.Process) -> str:
        """Whose executor it is."""
        return next(name for name, one in self._workers.items() if one.pid == executor.ppid())

    def kill_worker(self, name: str) -> None:
        """kill -9: its executors end by themselves."""
        worker = self._workers.pop(name)
        worker.kill()
        worker.wait(START_S)

    def close(self) -> None:
        """End everything, executors too."""
        executors = self.executors()
        for server in [*self._workers.values(), *filter(None, [self._master])]:
            server.kill()
            server.wait(START_S)
        for process in executors:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _start(self, name: str, said: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                [
                    str(spark_java_home() / "bin" / "java"),
                    *("-cp", f"{HOME}/jars/*", "-Xmx256m"),
                    f"org.apache.spark.deploy.{main}",
                    *arguments,
                ],
                env=self._env,
                cwd=self._folder,
                stdout=out,
                stderr=out,
            )
        wait_until(
            lambda: said in log.read_text(errors="replace"), START_S, f"{said!r} in {log.name}"
        )
        return server


@contextmanager
def cluster(
    folder: Path, workers: int = 1, cores: int = 1, memory: str = "1g", **env: str
) -> Iterator[Cluster]:
    """One that runs inside the block."""
    found = Cluster(folder, cores, memory, env)
    try:
        found.begin(workers)
        yield found
    finally:
        found.close()


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
