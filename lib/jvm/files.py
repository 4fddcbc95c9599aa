"""Files through Hadoop's file systems, and written as Spark writes its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from .session import java_class, java_object, jvm_session

_PATH = "org.apache.hadoop.fs.Path"
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


def read_bytes(spark: SparkSession, path: str) -> bytes | None:
    """Return a file's bytes through the Hadoop file system of its scheme; None without such a file.

    Raises OSError for a file that is there and cannot be read: no permission, or a check sum that
    does not fit.
    """
    file = java_class(spark, _PATH)(path)
    conf = jvm_session(spark).sessionState().newHadoopConf()
    return _read(spark, file, lambda: file.getFileSystem(conf))


class Folder:
    """A folder of which files are read again and again.

    The settings of the file system, some thousand, are copied once, and not at all for a path that
    begins with file:. Of a folder on this machine no more than the file itself is read. Each method
    raises OSError for what cannot be read.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = java_class(spark, _PATH)(path)
        place = self._path.toUri()
        if place.getScheme() == "file":
            self._local: Path | None = Path(place.getPath())
            return
        conf = jvm_session(spark).sessionState().newHadoopConf()
        try:
            self._system = self._path.getFileSystem(conf)
        except Py4JJavaError as error:
            told = error.java_exception.toString()
            raise OSError(f"{path} cannot be used: {told}") from error
        local = self._system.getUri().getScheme() == "file"
        self._local = Path(place.getPath()) if local else None

    def modified(self, name: str) -> int | None:
        """Return when a file was written, in milliseconds since 1970; None without such a file."""
        if self._local is None:
            return self._modified_there(name)
        try:
            return (self._local / name).stat().st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _modified_there(self, name: str) -> int | None:
        file = java_class(self._spark, _PATH)(self._path, name)
        try:
            return int(self._system.getFileStatus(file).getModificationTime())
        except Py4JJavaError as error:
            told = error.java_exception.toString()
            if told.startswith("java.io.FileNotFoundException"):
                return None
            raise OSError(f"{file.toString()} cannot be looked at: {told}") from error

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None without such a file."""
        if self._local is None:
            file = java_class(self._spark, _PATH)(self._path, name)
            return _read(self._spark, file, lambda: self._system)
        try:
            return (self._local / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


def _read(spark: SparkSession, file: Any, opened: Callable[[], Any]) -> bytes | None:
    try:
        system = opened()
        if not system.exists(file):
            return None
        stream = system.open(file)
        try:
            return bytes(java_class(spark, "org.apache.commons.io.IOUtils").toByteArray(stream))
        finally:
            stream.close()
    except Py4JJavaError as error:
        told = error.java_exception.toString()
        raise OSError(f"{file.toString()} cannot be read: {told}") from error


def delete_files(spark: SparkSession, paths: Sequence[Any]) -> None:
    """Delete files that nobody knows of, by their paths as Hadoop has them; what fails stays."""
    conf = jvm_session(spark).sessionState().newHadoopConf()
    for path in paths:
        with suppress(Py4JJavaError):
            path.getFileSystem(conf).delete(path, False)


class WholeFiles:
    """A folder of small files, each written whole or not at all, as Spark writes its checkpoints.

    Hadoop's check sums beside them are not looked at: of a writer that was killed they may be those
    of the content before. The files must bear a hash of their own. Each method raises OSError.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._made = java_class(spark, _PATH)
        self._folder = self._made(folder)
        # A copy of all settings, which is made once.
        self._conf = jvm_session(spark).sessionState().newHadoopConf()
        made = java_object(spark, _MANAGER)
        with self._explaining(self._folder):
            self._manager = made.create(self._folder, self._conf)
            scheme = self._folder.getFileSystem(self._conf).getUri().getScheme()
        self._local = Path(self._folder.toUri().getPath()) if scheme == "file" else None

    def write(self, name: str, content: bytes, *, replace: bool) -> bool:
        """Write a file; return False where it is there and is not to be replaced."""
        if replace and self._local is not None:
            # Hadoop replaces a local file by deleting it first: for a moment it would be gone, and
            # for ever where the process is killed then.
            part = self._local / f".{name}.part"
            part.write_bytes(content)
            part.replace(self._local / name)
            return True
        file = self._made(self._folder, name)
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
            told = error.java_exception
            if "FileAlreadyExists" in told.getClass().getName():
                return False
            raise OSError(f"{file.toString()} cannot be written: {told.toString()}") from error
        return True

    def names(self) -> list[str]:
        """Return the names of the files; none where there is no such folder."""
        if self._local is not None:
            return self._names_here(self._local)
        with self._explaining(self._folder):
            if not self._manager.exists(self._folder):
                return []
            return [status.getPath().getName() for status in self._manager.list(self._folder)]

    def _names_here(self, folder: Path) -> list[str]:
        """Return what Hadoop lists of a folder of this machine: its check sums are left out."""
        try:
            found = [each.name for each in folder.iterdir()]
        except FileNotFoundError:
            return []
        return [name for name in found if not (name.startswith(".") and name.endswith(".crc"))]

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None without such a file."""
        # The file system that Spark's session shares must go on to look at check sums.
        systems = java_class(self._spark, "org.apache.hadoop.fs.FileSystem")
        own = systems.newInstance(self._folder.toUri(), self._conf)
        try:
            own.setVerifyChecksum(False)
            return _read(self._spark, self._made(self._folder, name), lambda: own)
        finally:
            own.close()

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens where there is none."""
        with self._explaining(self._folder):
            self._manager.delete(self._made(self._folder, name))

    @contextmanager
    def _explaining(self, path: Any) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            told = error.java_exception.toString()
            raise OSError(f"{path.toString()} cannot be used: {told}") from error


def numbers_in(spark: SparkSession, folder: str) -> list[int]:
    """Return the numbers that files of a folder have for names, in order; as `names_in` else."""
    return sorted(int(name) for name in names_in(spark, folder) if name.isdecimal())


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """Return the names of a folder's files; none where there is no such folder."""
    place = java_class(spark, _PATH)(folder)
    try:
        system = place.getFileSystem(jvm_session(spark).sessionState().newHadoopConf())
        if not system.exists(place):
            return []
        return [status.getPath().getName() for status in system.listStatus(place)]
    except Py4JJavaError as error:
        raise OSError(f"{folder} cannot be listed: {error.java_exception.toString()}") from error


def delete_folder(spark: SparkSession, folder: str) -> None:
    """Delete a folder with all that is in it; nothing happens where there is none."""
    place = java_class(spark, _PATH)(folder)
    try:
        system = place.getFileSystem(jvm_session(spark).sessionState().newHadoopConf())
        system.delete(place, True)
    except Py4JJavaError as error:
        told = error.java_exception.toString()
        raise OSError(f"{folder} cannot be deleted: {told}") from error
