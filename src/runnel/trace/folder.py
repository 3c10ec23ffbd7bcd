"""How a trace lies on disk, and which writers there are.

    trace.json                                        format, version, clock
    writers/<writer>.json                             what a writer has written so far, replaced whole at every flush
    writers/<writer>.lock                             held by the writer's process for as long as it lives
    <table>/hour=<n>/part-<writer>-<n>.parquet        rows; the hour counts from the clock's zero
    <table>/hour=<n>/.part-<writer>-<n>.parquet.tmp   being written: hidden from everybody who reads tables

Rules:
- Whatever has its final name is whole: files are written under a temporary name, brought to disk, and renamed.
- A writer numbers its parts consecutively over all tables, so that a missing file is noticed.
- A writer is alive while its lock is held; the lock ends with its process. The next writer removes the unfinished files
  of dead writers; their statements stay.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeVar
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from runnel.errors import InputError
from runnel.trace.schemas import TABLES, VERSION, check_version

FORMAT = "runnel trace"
_T = TypeVar("_T", bound=Struct)
Clock = Literal["virtual", "wall"]

_PART = re.compile(r"part-(?P<writer>.+)-(?P<number>\d+)\.parquet")
_HOUR = re.compile(r"hour=(?P<n>\d+)")
_UNFINISHED = re.compile(r"\.(?:part-(?P<part>.+)-\d+\.parquet|(?P<statement>.+)\.json)\.tmp")


class About(Struct, frozen=True):
    """What `trace.json` says."""

    format: str
    version: int
    clock: Clock


class TableCount(Struct):
    """What a writer did for one table."""

    rows: int = 0  # in files
    dropped: int = 0  # never recorded: there was no room
    failed: int = 0  # recorded, but the files could not be written


class Statement(Struct):
    """A writer's statement about its work; times are by the trace's clock."""

    writer: str
    sample: int
    flush_interval_ns: int
    opened_ns: int
    flushed_ns: int  # what was recorded before this is in files
    lag_ns: int = 0  # how long a broker may keep a record before the writer sees it
    flush_took_ns: int = 0  # the longest so far; 0 in virtual time, where a flush takes none
    parts: int = 0  # files so far
    farewell: bool = False  # it ended normally: nothing is missing
    error: str = ""  # the last time that files could not be written
    tables: dict[str, TableCount] = {}

    @property
    def missing_ns(self) -> int:
        """For how long before its end the records of a killed writer may be lost.

        A flush begins when the interval is over and the previous flush has finished. Until it has finished, everything
        since the beginning of the previous flush may be lost.
        """
        if self.farewell:
            return 0
        between_ns = max(self.flush_interval_ns, self.flush_took_ns)
        return between_ns + self.flush_took_ns + self.lag_ns


class Part(NamedTuple):
    """One file of rows."""

    path: Path
    table: str
    hour: int
    writer: str
    number: int


class Folder:
    """A trace directory; see `open_folder` and `make_folder`."""

    def __init__(self, path: Path, about: About) -> None:
        self.path = path
        self.about = about

    def part(self, table: str, hour: int, writer: str, number: int) -> Part:
        """The file that some rows of a writer go to."""
        name = f"part-{_as_file_name(writer)}-{number:06d}.parquet"
        return Part(self.path / table / f"hour={hour}" / name, table, hour, writer, number)

    def parts(self, table: str | None = None) -> Iterator[Part]:
        """The files that are there, by table, hour and name."""
        for name in TABLES if table is None else (table,):
            found_hours = (_HOUR.fullmatch(p.name) for p in (self.path / name).glob("hour=*"))
            hours = [(int(h["n"]), self.path / name / h.string) for h in found_hours if h]
            for hour, folder in sorted(hours):
                for path in sorted(folder.iterdir()):
                    if found := _PART.fullmatch(path.name):
                        yield Part(path, name, hour, unquote(found["writer"]), int(found["number"]))

    def unexpected_files(self) -> list[Path]:
        """Parquet files in the tables' directories whose names are not those of writers."""
        found = (path for name in TABLES for path in (self.path / name).rglob("*.parquet"))
        names = {part.path for part in self.parts()}
        return sorted(
            path for path in found if path not in names and not _UNFINISHED.fullmatch(path.name)
        )

    def statements(self) -> list[Statement]:
        """The statements of all writers, by name."""
        paths = sorted((self.path / "writers").glob("*.json"))
        return [_read(path, Statement) for path in paths]

    def is_alive(self, writer: str) -> bool:
        """Whether the process of a writer still runs on this machine."""
        try:
            file = open(self.lock_path(writer), "rb")  # noqa: SIM115 - closed below
        except OSError:
            return False
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def lock_path(self, writer: str) -> Path:
        """The file that a writer holds locked."""
        return self.path / "writers" / f"{_as_file_name(writer)}.lock"

    def write_statement(self, statement: Statement, *, sync: bool) -> None:
        """Replace what a writer says of itself."""
        path = self.path / "writers" / f"{_as_file_name(statement.writer)}.json"
        temporary = path.with_name(f".{path.name}.tmp")
        write_whole(temporary, path, _pretty(statement), sync=sync)

    def remove_leftovers(self) -> int:
        """Remove the unfinished files of dead writers, and return how many there were."""
        alive: dict[str, bool] = {}
        removed = 0
        for path in self._find_unfinished():
            found = _UNFINISHED.fullmatch(path.name)
            writer = unquote(found["part"] or found["statement"]) if found else ""
            if found and writer not in alive:
                alive[writer] = self.is_alive(writer)
            if found and not alive[writer]:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _find_unfinished(self) -> Iterator[Path]:
        for table in TABLES:
            yield from sorted((self.path / table).glob("hour=*/.*.tmp"))
        yield from sorted((self.path / "writers").glob(".*.tmp"))


def open_folder(path: Path) -> Folder:
    """Open an existing trace, or raise InputError."""
    file = path / "trace.json"
    if not file.exists():
        missing = "there is no such directory" if not path.exists() else "it has no trace.json"
        raise InputError(f"{path}: this is no trace: {missing}; name the directory of a trace")
    about = _read(file, About)
    if about.format != FORMAT:
        raise InputError(f"{file}: this is no trace but {about.format!r}")
    check_version(about.version, str(file))
    return Folder(path, about)


def make_folder(path: Path, clock: Clock) -> Folder:
    """Open the trace at this place, or make one; several writers with the same clock may share it."""
    file = path / "trace.json"
    try:
        (path / "writers").mkdir(parents=True, exist_ok=True)
        if not file.exists():
            # Each writer uses a temporary name of its own: several may start together, with the same content.
            temporary = path / f".trace.json.{os.getpid()}.tmp"
            write_whole(temporary, file, _pretty(About(FORMAT, VERSION, clock)), sync=True)
    except OSError as error:
        raise InputError(f"{path}: no trace can be written here: {error.strerror}") from None
    folder = open_folder(path)
    if folder.about.clock != clock:
        raise InputError(
            f"{path}: holds a trace in {folder.about.clock} time, this one would be in {clock} time: "
            "choose another directory"
        )
    return folder


def take_lock(folder: Folder, writer: str) -> IO[bytes]:
    """Hold a writer's lock until the file is closed; an InputError if there was such a writer before."""
    path = folder.lock_path(writer)
    try:
        file = open(path, "xb")  # noqa: SIM115 - the caller holds it for as long as it writes
    except FileExistsError:
        raise InputError(
            f"{folder.path}: has a trace by {writer} already: choose another directory, or remove that one"
        ) from None
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def write_whole(temporary: Path, path: Path, content: bytes, *, sync: bool) -> None:
    """Write a small file so that nobody ever sees half of it."""
    with open(temporary, "wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)


def sync_file(path: Path) -> None:
    """Bring a file to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _as_file_name(writer: str) -> str:
    """Names of brokers are any text; those of files are not.

    >>> _as_file_name("B1/west-3")
    'B1%2Fwest-3'
    """
    return quote(writer, safe=" ")


def _pretty(what: Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(what), indent=2) + b"\n"


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
