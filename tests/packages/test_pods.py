"""The commands of docker/kubernetes in containers of the image, which may do as little as the pods
may: they begin, answer where the kubelet asks, and end in their time. (nightly; needs a Docker
engine, as `make docker-test` does)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.engine import NoEngineError, engine, text_of
from tests.docker.images import image
from tests.harness.wait import wait_until
from tests.packages.test_kubernetes import Document, documents, of_pod, python, told, workloads

__all__ = ["documents", "python"]
pytestmark = [pytest.mark.nightly, pytest.mark.slow]
PATIENCE_S = 60.0
ASK = (
    "import sys, urllib.error, urllib.request\n"
    "try:\n"
    "    print(urllib.request.urlopen(sys.argv[1], timeout=5).status)\n"
    "except urllib.error.HTTPError as error:\n"
    "    print(error.code)\n"
)


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Any, str]]:
    """(an engine's client, the image's name)."""
    with tempfile.TemporaryDirectory(prefix="zk-pods-", dir="/tmp") as folder:
        try:
            with engine(Path(folder) / "engine") as client:
                yield client, image(client, Path(folder), print)
        except NoEngineError as error:
            pytest.skip(str(error))


def status(container: Any, probe: Document, ports: dict[str, int]) -> str:
    """Of what the kubelet asks, from within; "" where nobody answers."""
    address = f"http://127.0.0.1:{ports[probe['port']]}{probe['path']}"
    return str(container.exec_run(["python3", "-c", ASK, address], demux=True).output[0] or b"")


def test_a_pods_command_runs_with_a_pods_rights(
    started: tuple[Any, str], documents: list[Document]
) -> None:
    client, name = started
    for what, document, found in workloads(documents):
        pod = document["spec"]["template"]["spec"]
        user = pod["securityContext"]["runAsUser"]
        variables = {e["name"]: of_pod(e.get("value", ""), what) for e in found.get("env", ())}
        given = {key: value for key, value in variables.items() if value}
        container = client.containers.run(
            name,
            [of_pod(word, what) for word in found["args"]],
            environment={**told(), **given},
            user=f"{user}:{user}",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            tmpfs={m["mountPath"]: f"uid={user},gid={user}" for m in found["volumeMounts"]},
            mem_limit=found["resources"]["limits"]["memory"].removesuffix("i").lower(),
            detach=True,
        )
        try:
            ports = {port["name"]: port["containerPort"] for port in found["ports"]}
            live, ready = (found[f"{k}Probe"]["httpGet"] for k in ("liveness", "readiness"))
            wait_until(lambda: "200" in status(container, live, ports), PATIENCE_S, f"{what} lives")
            # no ZooKeeper is there: only the console, which says so on its pages, is ready
            assert ("200" if what == "console" else "503") in status(container, ready, ports), what
            container.stop(timeout=pod["terminationGracePeriodSeconds"])
            said = text_of(container)
            assert container.wait()["StatusCode"] == 0 and "Traceback" not in said, said
        finally:
            container.remove(force=True)
