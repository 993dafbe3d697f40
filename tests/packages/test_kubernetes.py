"""docker/kubernetes: to the schemas of Kubernetes, and to what the programs in the pods do."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.gateway.cli import gateway_options
from consumer.gateway.operation.ending import END_S
from tests.packages import manifests
from tests.packages.tools import HERE, MissingToolError, PackagingError, run, tools
from zkcoord import __version__
from zkcoord.cli.main import COMMANDS
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import coordinator_settings
from zkcoord.config.sources import resolve
from zkcoord.console.http.serving import parse_listen
from zkcoord.coordinator.service import STOP_DEADLINE_MS
from zkcoord.core.assignment import ASSIGNORS

WORKLOADS = {"Deployment", "StatefulSet"}
ENDS_WITHIN_S = {"coordinator": STOP_DEADLINE_MS / 1000, "gateway": END_S, "console": 1.0}
USER = 10001
GATEWAY = "zkcoord-gateway-0.zkcoord-gateways.shop.svc"
Document = dict[str, Any]


@pytest.fixture(scope="module")
def python() -> Path:
    """With what reads and judges the files."""
    try:
        return tools("kubernetes")
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def documents(python: Path) -> list[Document]:
    """All of them, as the schemas take them."""
    return manifests.validated(python)[0]


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == kind}


def workloads(documents: list[Document]) -> Iterator[tuple[str, Document, Document]]:
    """(coordinator, gateway or console; the workload; its one container)."""
    for document in documents:
        if document["kind"] in WORKLOADS:
            (container,) = document["spec"]["template"]["spec"]["containers"]
            yield container["name"], document, container


def told() -> dict[str, str]:
    """zkcoord.env."""
    text = (manifests.FOLDER / "zkcoord.env").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def started(container: Document) -> argparse.Namespace:
    """What a container's command is told, by its parser."""
    program, command, *flags = container["args"]
    assert program == "zkcoord"
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[command].module).add_parser(parser.add_subparsers())
    return parser.parse_args([command, *flags])


def of_pod(text: str, name: str) -> str:
    """With the variables that the kubelet puts in."""
    return text.replace("$(POD_NAME)", name).replace("$(POD_NAMESPACE)", "shop")


def test_what_a_schema_does_not_know_is_said(python: Path, tmp_path: Path) -> None:
    text = (manifests.FOLDER / "console.yaml").read_text(encoding="utf-8")
    path = tmp_path / "console.yaml"
    path.write_text(text.replace("readOnlyRootFilesystem", "readonlyRootFilesystem"), "utf-8")
    said = json.loads(run([python, "-I", HERE / "schema.py", manifests.OLDEST, path], tmp_path))
    assert len(said["errors"]) == len(said["releases"]) == 2
    assert all("Deployment zkcoord-console" in sentence for sentence in said["errors"])


def test_a_file_that_is_wrong_is_refused(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (manifests.FOLDER / "network.yaml").read_text(encoding="utf-8")
    path = tmp_path / "network.yaml"
    path.write_text(text.replace("policyTypes", "policyTipes"), "utf-8")
    monkeypatch.setattr(manifests, "named_files", lambda: [path])
    with pytest.raises(PackagingError, match="policyTipes"):
        manifests.validated(python)


def test_every_file_is_made_a_resource_of() -> None:
    there = {path.name for path in manifests.FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert {path.name for path in manifests.named_files()} == there
    text = (manifests.FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
    assert f'newTag: "{__version__}"\n' in text


def test_pods_may_do_little(documents: list[Document]) -> None:
    found = list(workloads(documents))
    assert {name for name, _, _ in found} == set(ENDS_WITHIN_S)
    for name, document, container in found:
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        }, name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        mounted = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        assert mounted == {"state": "/var/lib/zkcoord", "tmp": "/tmp"}
        assert {v["name"] for v in pod["volumes"] if v["emptyDir"]["sizeLimit"]} == set(mounted)
        assert container["resources"]["limits"]["memory"]
    image = (manifests.FOLDER.parent / "Dockerfile").read_text(encoding="utf-8")
    assert f"USER {USER}:{USER}\n" in image and "HOME=/var/lib/zkcoord" in image


def test_pods_are_given_the_time_that_they_need_to_end(documents: list[Document]) -> None:
    for name, document, container in workloads(documents):
        waits = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        before = float(waits[1]) if waits else 0.0
        grace = document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace >= before + ENDS_WITHIN_S[name] + 10, name
        assert (before > 0) == (name == "gateway"), "only to gateways traffic comes"


def test_what_is_asked_is_where_it_is_served(documents: list[Document]) -> None:
    for name, _, container in workloads(documents):
        args, ports = (
            started(container),
            {p["name"]: p["containerPort"] for p in container["ports"]},
        )
        if name == "console":
            assert parse_listen(args.listen) == ("0.0.0.0", ports["http"])
            paths = {"/static/console.css"}
        else:
            assert (args.http_host, int(args.http_port)) == ("0.0.0.0", ports["http"])
            paths = {"/live", "/ready"}
        probes = {k: v["httpGet"] for k, v in container.items() if k.endswith("Probe")}
        assert {probe["port"] for probe in probes.values()} == {"http"}
        assert {probe["path"] for probe in probes.values()} == paths
        assert "readinessProbe" in probes and "livenessProbe" in probes


def test_what_pods_are_told_is_taken(documents: list[Document]) -> None:
    env = told()
    for name, _, container in workloads(documents):
        args = vars(started(container))
        if name == "coordinator":
            settings = resolve(Use.COORDINATOR, args, env)
            assert coordinator_settings(settings, tuple(ASSIGNORS), {"HOME": "/x"}).http is not None
        elif name == "gateway":
            (advertised,) = (e for e in container["env"] if e["name"] == "ZKCOORD_ADVERTISE")
            called = of_pod(advertised["value"], "zkcoord-gateway-0")
            settings = resolve(Use.GATEWAY, args, {**env, "ZKCOORD_ADVERTISE": called})
            options = gateway_options(settings)
            assert options.http is not None and options.host == called == GATEWAY
        else:
            resolve(Use.GROUPS, args, env)


def test_each_gateway_has_a_name_of_its_own(documents: list[Document]) -> None:
    """Which leads to it also while it is not ready, at every port."""
    (document,) = named(documents, "StatefulSet").values()
    (container,) = document["spec"]["template"]["spec"]["containers"]
    of_all = document["spec"]["serviceName"]
    service = named(documents, "Service")[of_all]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    (advertised,) = (e["value"] for e in container["env"] if e["name"] == "ZKCOORD_ADVERTISE")
    assert advertised == f"$(POD_NAME).{of_all}.$(POD_NAMESPACE).svc"
    order = [entry["name"] for entry in container["env"]]
    assert order.index("ZKCOORD_ADVERTISE") > max(
        order.index("POD_NAME"), order.index("POD_NAMESPACE")
    ), "a variable is known to those behind it only"


def test_http_is_not_among_the_ports_of_brokers(documents: list[Document]) -> None:
    args = next(started(c) for name, _, c in workloads(documents) if name == "gateway")
    clients = named(documents, "NetworkPolicy")["zkcoord-clients"]["spec"]["ingress"][0]["ports"]
    first, last = clients[0]["port"], clients[0]["endPort"]
    assert first == int(args.listen.rpartition(":")[2])
    served = named(documents, "NetworkPolicy")["zkcoord-http"]["spec"]["ingress"][0]
    assert served["from"] == [{"podSelector": {}}]
    http = {p["containerPort"] for _, _, c in workloads(documents) for p in c["ports"][-1:]}
    assert {p["port"] for p in served["ports"]} == http
    assert not first <= int(args.http_port) <= last


def test_selectors_find_pods_and_services_their_ports(documents: list[Document]) -> None:
    pods = {d["metadata"]["name"]: d["spec"]["template"] for _, d, _ in workloads(documents)}
    labels = {name: pod["metadata"]["labels"] for name, pod in pods.items()}
    for name, document in {
        **named(documents, "Deployment"),
        **named(documents, "StatefulSet"),
        **named(documents, "PodDisruptionBudget"),
    }.items():
        assert document["spec"]["selector"]["matchLabels"] == labels[name]
    for service in named(documents, "Service").values():
        (name,) = (n for n, found in labels.items() if found == service["spec"]["selector"])
        ports = {p["name"] for p in pods[name]["spec"]["containers"][0]["ports"]}
        assert {p["targetPort"] for p in service["spec"]["ports"]} <= ports


def test_several_are_kept_apart_and_not_all_taken_at_once(documents: list[Document]) -> None:
    several = {
        d["metadata"]["name"]: d for _, d, _ in workloads(documents) if d["spec"]["replicas"] > 1
    }
    assert set(several) == set(named(documents, "PodDisruptionBudget"))
    for name, document in several.items():
        pod = document["spec"]["template"]
        (apart,) = pod["spec"]["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
        assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
        assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"] == pod["metadata"]["labels"]
        budget = named(documents, "PodDisruptionBudget")[name]["spec"]
        assert budget["maxUnavailable"] == 1 < document["spec"]["replicas"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_makes_them(documents: list[Document]) -> None:
    ended = subprocess.run(
        ["kubectl", "kustomize", str(manifests.FOLDER)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("\nkind: ") == len(documents) + 1, "and the map of options"
    images = set(re.findall(r"image: (\S+)", ended.stdout))
    assert images == {f"zkcoord:{__version__}"}
