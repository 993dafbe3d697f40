"""docs/tutorial.md, walked through on real servers; and the walker, on small pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.docs.pages import blocks, page
from tests.docs.walking import PATIENCE_S, Walk, differs, reached, shape
from tests.harness.wait import wait_until
from tests.packages.tools import ROOT, environment
from zkcoord.stack.ports import free_port

INSTALL_S = 1_800.0
PROGRAMS = {"python": "", "zkcoord": "-m zkcoord.cli.main"}


def at_home(folder: Path) -> dict[str, str]:
    """As if this checkout's zkcoord were installed, by a user with a home of the test's."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, arguments in PROGRAMS.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    told = ("ZKCOORD_CACHE",)
    kept = {n: v for n, v in os.environ.items() if n in told or not n.startswith("ZKCOORD_")}
    home = folder / "home"
    home.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": cache,
    }


@pytest.mark.slow
@pytest.mark.kafka
def test_the_tutorial(tmp_path: Path) -> None:
    """Each command, in its terminal; what is shown is what comes; nothing is left running."""
    folder, port = tmp_path / "tutorial", free_port()
    folder.mkdir()
    seen: list[str] = []

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_S) as found:
            return str(found.read().decode())

    def look() -> None:
        wait_until(lambda: "billing" in get(""), PATIENCE_S, "the group on the first page")
        seen.append(get("group?name=billing"))

    # 9407 may be somebody's here
    instead = {
        "zkcoord console --journal-dir journal": (
            f"zkcoord console --journal-dir journal --listen 127.0.0.1:{port}"
        )
    }
    walk = Walk(page("tutorial"), folder, at_home(tmp_path), instead, {"console": look})
    try:
        assert walk.goes() > 20
    finally:
        down = [sys.executable, "-m", "zkcoord.cli.main", "stack", "down"]
        subprocess.run(down, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert all(member in seen[0] for member in ("billing_one", "billing_three"))
    written = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not written, "the page says that nothing is written elsewhere"


def test_who_reads_it_is_told_what_files_are_called() -> None:
    """The comments that say so are not seen."""
    text = page("tutorial")
    files = [b.mark.removeprefix("file: ") for b in blocks(text) if b.mark.startswith("file: ")]
    assert len(files) == 3 and all(f"as `{name}`" in " ".join(text.split()) for name in files)
    assert all(b.mark for b in blocks(text) if b.language != "console")


@pytest.mark.nightly
@pytest.mark.timeout(INSTALL_S)
def test_the_install_block(tmp_path: Path) -> None:
    """In a clone, by pip: what is behind it is there then."""
    (block,) = (b for b in blocks(page("tutorial")) if b.mark.startswith("leave: "))
    assert block.mark == "leave: test_the_install_block"
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    script = "\n".join(["set -e", *lines, "zkcoord stack --help", "zkcoord console --help"])
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=clone,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    shutil.rmtree(clone)


SMALL = """
<!-- file: a.py -->
```python
import sys, time
print("began", 1, flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("ended")
    sys.exit(0)
```

```console
$ export WHO=me; mkdir below; cd below
$ echo "$WHO in $(basename $PWD)"
me in below
```

<!-- terminal: other -->
```console
$ python a.py
began 7
```

```console
$ seq 3
1
...
```

<!-- terminal: other -->
```console
^C
ended
```
"""


def walked(text: str, tmp_path: Path) -> int:
    """How many steps a small page has."""
    folder = tmp_path / "walked"
    folder.mkdir()
    return Walk(text, folder, at_home(tmp_path), {}, {}).goes()


def test_a_small_page_is_walked_through(tmp_path: Path) -> None:
    assert walked(SMALL, tmp_path) == 5


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("me in below", "you in below", "you in below"),
        ("1\n...\n", "1\n", "more is said"),
        ("began 7", "begun 7", "begun"),
        ("ended\n```", "over\n```", "over"),
        ("^C\nended\n", "", "something runs"),
        ("seq 3", "seq 3; false", "seq 3; false"),
    ],
)
def test_a_page_that_is_not_so_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, said: str
) -> None:
    monkeypatch.setattr("tests.docs.walking.PATIENCE_S", 3.0)
    assert right in SMALL
    with pytest.raises(AssertionError, match=re.escape(said)):
        walked(SMALL.replace(right, wrong), tmp_path)


def test_shapes() -> None:
    assert shape("kafka   127.0.0.1:1 pid 2 log ...").fullmatch(
        "kafka 127.0.0.1:35447  pid 11 log /x/y"
    )
    assert not shape("assigned 0 1").fullmatch("assigned 0 1 2")
    assert not shape("billing").fullmatch("billings")
    assert not differs(["...", "b"], ["a", "x", "b"]) and not differs(["a", "..."], ["a"])
    assert differs(["b"], ["a", "b"]) and differs(["a"], ["a", "b"])
    assert reached(["b"], ["a", "b"]) == 2 and reached([], ["a"]) == 0
    assert reached(["b", "a"], ["a", "b"]) is None and reached(["a"], ["a", "b"], 1) is None
