"""How a trace lies on disk, and which writers there are.

    trace.json                                        format, version, clock
    writers/<writer>.json                             what a writer has written so far, replaced whole at every flush
    writers/<writer>.lock                             held by the writer's process for as long as it lives
    <table>/hour=<n>/part-<writer>-<n>.parquet        rows; the hour counts from the clock's zero
    <table>/hour=<n>/.part-<writer>-<n>.parquet.tmp   being written: hidden from everybody who reads tables

Rules:
- Whatever has its final name is whole: files are written under a temporary name, brought to disk, and renamed.
- The parts of a writer are numbered through, over all tables, so that one that was taken away is missed.
- A writer is alive while its lock is held, which ends with its process, however that ends. The next writer removes what
  the dead left half written; their statements stay.
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
    """What a writer says of itself; times are the trace's."""

    writer: str
    sample: int
    flush_interval_ns: int
    opened_ns: int
    flushed_ns: int  # what was recorded before this is in files
    lag_ns: int = 0  # for so long a broker may keep what it records, before the writer sees it
    flush_took_ns: int = 0  # the longest so far; 0 in virtual time, where a flush takes none
    parts: int = 0  # files so far
    farewell: bool = False  # it ended of its own accord: nothing is missing
    error: str = ""  # the last time that files could not be written
    tables: dict[str, TableCount] = {}

    @property
    def missing_ns(self) -> int:
        """How long before its end a writer that was killed may have recorded what is in no file.

        It flushes when an interval is over and the flush before it is; until that is through, all since the
        beginning of the flush before may be lost.
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
    """A trace directory, as one who reads finds it; see `open_folder` and `make_folder`."""

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

    def strange(self) -> list[Path]:
        """Parquet files among those of tables that are not named as writers name theirs."""
        found = (path for name in TABLES for path in (self.path / name).rglob("*.parquet"))
        names = {part.path for part in self.parts()}
        return sorted(
            path for path in found if path not in names and not _UNFINISHED.fullmatch(path.name)
        )

    def statements(self) -> list[Statement]:
        """What the writers say, by name."""
        paths = sorted((self.path / "writers").glob("*.json"))
        return [_read(path, Statement) for path in paths]

    def is_alive(self, writer: str) -> bool:
        """Whether the process of a writer still runs, as far as this machine can tell."""
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

    def say(self, statement: Statement, *, sync: bool) -> None:
        """Replace what a writer says of itself."""
        path = self.path / "writers" / f"{_as_file_name(statement.writer)}.json"
        temporary = path.with_name(f".{path.name}.tmp")
        write_whole(temporary, path, _pretty(statement), sync=sync)

    def remove_leftovers(self) -> int:
        """Remove what dead writers left half written; how many files that were."""
        alive: dict[str, bool] = {}
        removed = 0
        for path in self._unfinished():
            found = _UNFINISHED.fullmatch(path.name)
            writer = unquote(found["part"] or found["statement"]) if found else ""
            if found and writer not in alive:
                alive[writer] = self.is_alive(writer)
            if found and not alive[writer]:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _unfinished(self) -> Iterator[Path]:
        for table in TABLES:
            yield from sorted((self.path / table).glob("hour=*/.*.tmp"))
        yield from sorted((self.path / "writers").glob(".*.tmp"))


def open_folder(path: Path) -> Folder:
    """A trace that is there, or an InputError."""
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
    """The trace at this place, made if need be; several writers of one clock may share it."""
    file = path / "trace.json"
    try:
        (path / "writers").mkdir(parents=True, exist_ok=True)
        if not file.exists():
            # Each under a name of its own: writers that start together make the same file.
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
