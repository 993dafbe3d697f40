"""A sink's directory: the few things that publishing asks of a file system. Atomic rename is what
it rests on, so stores that copy instead are refused.

`LocalFiles` is a path that driver and executors share (one machine, NFS); `HadoopFiles` is HDFS,
through Hadoop's client in Spark's driver. Paths are relative to the directory, with `/`. Below the
directory no symbolic link is followed, and nothing is moved over another file.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from consumer.spark.sink.errors import SinkError, SinkRefusedError
from consumer.spark.sink.manifest import MANIFEST_BYTES_MAX, is_hidden
from consumer.spark.sink.publication import MoveEnded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HADOOP_SCHEMES = ("hdfs", "viewfs", "ofs")
WRITING = ".writing"


class Files(Protocol):
    """A sink's directory."""

    # How Spark names it, alike for every process that writes there.
    uri: str

    def put(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all."""

    def fetch(self, path: str) -> bytes | None:
        """A file's bytes, None where there is none."""

    def move(self, source: str, target: str) -> MoveEnded:
        """Rename, atomically, making the folders above the target."""

    def folders(self, path: str) -> tuple[str, ...]:
        """Names in a folder."""

    def remove(self, path: str) -> None:
        """Remove a folder with all that is in it."""

    def written(self, folder: str) -> tuple[str, ...]:
        """Paths, relative to `folder`, of the files in it that Spark would read."""


def files_at(directory: str, spark: SparkSession) -> Files:
    """The directory, as a path or a URI. Raises `SinkRefusedError` where its store has no atomic
    rename.
    """
    scheme = scheme_of(directory) or scheme_of(_default_uri(spark))
    if scheme == "file":
        return local_files(directory)
    if scheme in HADOOP_SCHEMES:
        return HadoopFiles(directory, spark)
    raise SinkRefusedError(
        f"the fenced sink cannot write to {directory!r}: {scheme} has no atomic rename; use a"
        " directory on HDFS or on a file system that all share"
        f" ({', '.join(('file', *HADOOP_SCHEMES))})"
    )


def scheme_of(directory: str) -> str:
    """`hdfs` of `hdfs://nn/out`; "" of a path. Raises `SinkRefusedError` for what is neither."""
    try:
        return urlsplit(directory).scheme
    except ValueError as error:
        raise SinkRefusedError(
            f"{directory!a} is neither a path nor a URI ({error}): write one, as hdfs://nn:8020/out"
        ) from error


def local_files(directory: str) -> LocalFiles:
    """A directory of this machine, or one that all share, as a path or a `file:` URI."""
    return LocalFiles(
        Path(urlsplit(directory).path if directory.startswith("file:") else directory)
    )


class LocalFiles:
    """A directory of a local or shared file system."""

    def __init__(self, directory: Path) -> None:
        self.root = directory.absolute()
        self.uri = f"file://{self.root}"  # as Hadoop writes it, which escapes nothing

    def put(self, path: str, data: bytes) -> None:
        """Write beside it, then rename."""
        target = self._at(path)
        if target is None:
            raise SinkError(
                f"{self.root / path} is not written: a symbolic link leads there out of the sink's"
                " directory, remove it"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}{WRITING}")
        beside.write_bytes(data)
        os.replace(beside, target)

    def fetch(self, path: str) -> bytes | None:
        """A file's bytes, up to what a manifest may have; None where it is no file."""
        place = self._at(path)
        if place is None or _kind(place) != stat.S_IFREG:
            return None
        try:
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                return file.read(MANIFEST_BYTES_MAX + 1)
        except FileNotFoundError:
            return None

    def move(self, source: str, target: str) -> MoveEnded:
        """Rename. A target has its batch's name, so that only who moves the same file makes it."""
        here, there = self._at(source), self._at(target)
        if here is None or there is None:
            return MoveEnded.REFUSED
        if _kind(there) is not None:
            return MoveEnded.BEFORE if _is_same_or_gone(here, there) else MoveEnded.REFUSED
        if _kind(here) not in (None, stat.S_IFREG):
            return MoveEnded.REFUSED
        try:
            there.parent.mkdir(parents=True, exist_ok=True)
            os.rename(here, there)
        except FileNotFoundError:
            return MoveEnded.BEFORE if _kind(there) is not None else MoveEnded.NEITHER
        except OSError as error:
            raise SinkError(
                f"{here} could not be moved to {there} ({error.strerror}): look at the file"
                " system's permissions"
            ) from None
        return MoveEnded.NOW

    def folders(self, path: str) -> tuple[str, ...]:
        """Names in a folder."""
        place = self._at(path)
        try:
            return tuple(sorted(os.listdir(place))) if place is not None else ()
        except FileNotFoundError:
            return ()

    def remove(self, path: str) -> None:
        """Remove a folder; what another removes at the same time is no error. A link is none."""
        place = self._at(path)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)

    def written(self, folder: str) -> tuple[str, ...]:
        """What Spark would read."""
        found = []
        for place, folders, names in os.walk(self.root / folder):
            folders[:] = [name for name in folders if not is_hidden(name)]
            found += [
                (Path(place) / name).relative_to(self.root / folder).as_posix()
                for name in names
                if not is_hidden(name)
            ]
        return tuple(sorted(found))

    def _at(self, path: str) -> Path | None:
        """Where a path lies; None where that is not below the directory: it leads along a link."""
        place = self.root / path
        real = os.path.realpath(self.root)
        above = os.path.dirname(path)
        return (
            place
            if os.path.realpath(place.parent) == os.path.join(real, above).rstrip("/")
            else None
        )


def _kind(place: Path) -> int | None:
    """What kind of file lies there, links not followed; None: none."""
    try:
        return stat.S_IFMT(os.lstat(place).st_mode)
    except OSError:
        return None


def _is_same_or_gone(source: Path, target: Path) -> bool:
    """Whether another has moved it here: a network file system may still show it at its source."""
    try:
        return os.path.samestat(os.lstat(source), os.lstat(target))
    except FileNotFoundError:
        return True


class HadoopFiles:
    """A directory of a Hadoop file system, in the driver's JVM."""

    def __init__(self, directory: str, spark: SparkSession) -> None:
        self._jvm = _jvm(spark)
        self._path = self._jvm.org.apache.hadoop.fs.Path
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        self._fs = self._path(directory).getFileSystem(conf)
        self._root = self._fs.makeQualified(self._path(directory))
        self.uri = str(self._root.toString())

    def put(self, path: str, data: bytes) -> None:
        """Write beside it, then rename."""
        target = self._at(path)
        beside = self._path(target.getParent(), f".{target.getName()}{WRITING}")
        stream = self._fs.create(beside, True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        self._fs.delete(target, False)
        if not self._fs.rename(beside, target):
            raise SinkError(
                f"{self.uri}/{path} could not be written: look at the file system's permissions and"
                " space"
            )

    def fetch(self, path: str) -> bytes | None:
        """A file's bytes."""
        if not self._fs.exists(self._at(path)):
            return None
        stream = self._fs.open(self._at(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def move(self, source: str, target: str) -> MoveEnded:
        """Rename, which overwrites nothing; where another has moved it, it says no, or fails."""
        if self._fs.exists(self._at(source)):
            self._fs.mkdirs(self._at(target).getParent())
            if self._renamed(source, target):
                return MoveEnded.NOW
        if self._fs.exists(self._at(source)):
            if self._fs.exists(self._at(target)):
                return MoveEnded.REFUSED
            raise SinkError(
                f"{self.uri}/{source} could not be moved to {target}: look at the file system's"
                " permissions"
            )
        return MoveEnded.BEFORE if self._fs.exists(self._at(target)) else MoveEnded.NEITHER

    def folders(self, path: str) -> tuple[str, ...]:
        """Names in a folder."""
        return (
            tuple(
                sorted(status.getPath().getName() for status in self._fs.listStatus(self._at(path)))
            )
            if self._fs.exists(self._at(path))
            else ()
        )

    def remove(self, path: str) -> None:
        """Remove a folder."""
        self._fs.delete(self._at(path), True)

    def written(self, folder: str) -> tuple[str, ...]:
        """What Spark would read."""
        found = []
        within = self._fs.makeQualified(self._at(folder)).toString() + "/"
        files = (
            self._fs.listFiles(self._at(folder), True)
            if self._fs.exists(self._at(folder))
            else None
        )
        while files is not None and files.hasNext():
            path = files.next().getPath().toString().removeprefix(within)
            if not any(map(is_hidden, path.split("/"))):
                found.append(path)
        return tuple(sorted(found))

    def _at(self, path: str) -> Any:
        return self._path(self._root, path) if path else self._root

    def _renamed(self, source: str, target: str) -> bool:
        from py4j.protocol import Py4JJavaError

        try:
            return bool(self._fs.rename(self._at(source), self._at(target)))
        except Py4JJavaError as e:
            if "FileNotFoundException" in str(e.java_exception.getClass().getName()):
                return False
            raise


def _jvm(spark: SparkSession) -> Any:
    if not hasattr(spark, "_jvm"):
        raise SinkRefusedError(
            "the fenced sink runs in the driver of a classic Spark session, and this is a Spark"
            " Connect client: run the application with spark-submit"
        )
    return spark._jvm


def _default_uri(spark: SparkSession) -> str:
    return str(
        _jvm(spark)
        .org.apache.hadoop.fs.FileSystem.getDefaultUri(
            spark.sparkContext._jsc.hadoopConfiguration()
        )
        .toString()
    )
