"""Files on Hadoop's file systems, with the atomic writes of Spark's checkpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from .spark_internals import (
    CHECKPOINT_MANAGER,
    java_class,
    java_object,
    jvm_session,
    raising_os_errors,
)

_PATH = "org.apache.hadoop.fs.Path"


def read_bytes(spark: SparkSession, path: str) -> bytes | None:
    """Return the content of a file on its Hadoop file system; None without such a file.

    Raises OSError for a file that cannot be read, for example without permission or with a wrong
    checksum.
    """
    return _read_file(spark, java_class(spark, _PATH)(path))


def _file_system(spark: SparkSession, path: Any) -> Any:
    # A copy of all settings, about a thousand.
    return path.getFileSystem(jvm_session(spark).sessionState().newHadoopConf())


def _read_file(spark: SparkSession, file: Any, system: Any = None) -> bytes | None:
    with raising_os_errors(file, "cannot be read"):
        system = system or _file_system(spark, file)
        if not system.exists(file):
            return None
        stream = system.open(file)
        try:
            return bytes(java_class(spark, "org.apache.commons.io.IOUtils").toByteArray(stream))
        finally:
            stream.close()


def list_numbers(spark: SparkSession, folder: str) -> list[int]:
    """Return the sorted numbers among the names in a folder; raises OSError like `list_names`."""
    return sorted(int(name) for name in list_names(spark, folder) if name.isdecimal())


def list_names(spark: SparkSession, folder: str) -> list[str]:
    """Return the names in a folder; an empty list for a missing folder."""
    path = java_class(spark, _PATH)(folder)
    with raising_os_errors(folder, "cannot be listed"):
        system = _file_system(spark, path)
        if not system.exists(path):
            return []
        return [status.getPath().getName() for status in system.listStatus(path)]


def delete_folder(spark: SparkSession, folder: str) -> None:
    """Delete a folder with its content if it exists."""
    path = java_class(spark, _PATH)(folder)
    with raising_os_errors(folder, "cannot be deleted"):
        _file_system(spark, path).delete(path, True)


def delete_files(spark: SparkSession, paths: Sequence[Any]) -> None:
    """Delete uncommitted files by their Hadoop paths, and ignore failures."""
    for path in paths:
        with suppress(Py4JJavaError):
            _file_system(spark, path).delete(path, False)


def missing_files(spark: SparkSession, paths: Sequence[Any]) -> list[str]:
    """Return which of these Hadoop paths do not exist; raise OSError for an unreadable one."""
    missing = []
    systems: dict[str, Any] = {}
    for path in paths:
        uri = path.toUri()
        if uri.getScheme() == "file":
            exists = Path(uri.getPath()).exists()
        else:
            with raising_os_errors(path, "cannot be accessed"):
                root = f"{uri.getScheme()}://{uri.getAuthority()}"
                if root not in systems:
                    systems[root] = _file_system(spark, path)
                exists = systems[root].exists(path)
        if not exists:
            missing.append(str(path.toString()))
    return missing


class HadoopFolder:
    """A folder whose files are read repeatedly; its file system is opened once.

    Local files are read without Hadoop. Each method raises OSError for a file that cannot be read.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = java_class(spark, _PATH)(path)
        uri = self._path.toUri()
        scheme = uri.getScheme()
        if scheme != "file":
            with raising_os_errors(path, "cannot be used"):
                self._file_system = _file_system(spark, self._path)
            scheme = self._file_system.getUri().getScheme()
        self._local = Path(uri.getPath()) if scheme == "file" else None

    def modified_at(self, name: str) -> int | None:
        """Return the modification time of a file in milliseconds since 1970, or None."""
        if self._local is None:
            return self._remote_modified_at(name)
        try:
            return (self._local / name).stat().st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _remote_modified_at(self, name: str) -> int | None:
        file = java_class(self._spark, _PATH)(self._path, name)
        try:
            return int(self._file_system.getFileStatus(file).getModificationTime())
        except Py4JJavaError as error:
            reason = error.java_exception.toString()
            if reason.startswith("java.io.FileNotFoundException"):
                return None
            raise OSError(f"{file.toString()} cannot be accessed: {reason}") from error

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None without such a file."""
        if self._local is None:
            file = java_class(self._spark, _PATH)(self._path, name)
            return _read_file(self._spark, file, self._file_system)
        try:
            return (self._local / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


class AtomicFiles:
    """A folder of small files with atomic writes, as in Spark's checkpoints.

    Hadoop's checksum files are ignored, because a killed writer can leave those of the previous
    content. The content must include a hash. Each method raises OSError.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._path_class = java_class(spark, _PATH)
        self._folder = self._path_class(folder)
        # A copy of all settings, which is made once.
        self._conf = jvm_session(spark).sessionState().newHadoopConf()
        manager_factory = java_object(spark, CHECKPOINT_MANAGER)
        with raising_os_errors(self._folder, "cannot be used"):
            self._manager = manager_factory.create(self._folder, self._conf)
            scheme = self._folder.getFileSystem(self._conf).getUri().getScheme()
        self._local = Path(self._folder.toUri().getPath()) if scheme == "file" else None

    def write(self, name: str, content: bytes, *, replace: bool) -> bool:
        """Write a file; return False if it exists and `replace` is false."""
        if replace and self._local is not None:
            # Hadoop deletes a local file before it replaces it; a kill in between would lose it.
            part_file = self._local / f".{name}.part"
            part_file.write_bytes(content)
            part_file.replace(self._local / name)
            return True
        file = self._path_class(self._folder, name)
        try:
            if not replace:
                self._manager.mkdirs(self._folder)
            stream = self._manager.createAtomic(file, replace)
            try:
                stream.write(bytearray(content))
            except BaseException:
                stream.cancel()
                raise
            stream.close()
        except Py4JJavaError as error:
            exception = error.java_exception
            if "FileAlreadyExists" in exception.getClass().getName():
                return False
            raise OSError(f"{file.toString()} cannot be written: {exception.toString()}") from error
        return True

    def list_names(self) -> list[str]:
        """Return the names of the files; an empty list for a missing folder.

        Hadoop's checksum files are left out.
        """
        if self._local is not None:
            with suppress(FileNotFoundError):
                names = [each.name for each in self._local.iterdir()]
                return [name for name in names if not re.fullmatch(r"\..*\.crc", name)]
            return []
        with raising_os_errors(self._folder, "cannot be used"):
            if not self._manager.exists(self._folder):
                return []
            return [status.getPath().getName() for status in self._manager.list(self._folder)]

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None without such a file."""
        # A new instance, because the shared file system must continue to verify checksums.
        systems = java_class(self._spark, "org.apache.hadoop.fs.FileSystem")
        unverified_system = systems.newInstance(self._folder.toUri(), self._conf)
        try:
            unverified_system.setVerifyChecksum(False)
            return _read_file(self._spark, self._path_class(self._folder, name), unverified_system)
        finally:
            unverified_system.close()

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with raising_os_errors(self._folder, "cannot be used"):
            self._manager.delete(self._path_class(self._folder, name))
