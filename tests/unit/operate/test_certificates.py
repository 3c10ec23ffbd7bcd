"""Certificates that `runnel certs` makes: for whom, readable by whom, and never in place of others."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runnel.cli.main import main
from runnel.errors import InputError
from runnel.operate.certificate_folder import CertificateFolder
from runnel.operate.certificates import (
    complete_folder,
    make_authority,
    make_certificates,
    read_certificates,
)
from support.certificates import make_folder


def runnel(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_a_set_for_a_laptop_is_made_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    made = runnel("certs", "init", str(folder), "--host", "b.example.org", "--host", "10.0.0.7")
    assert made.exit_code == 0, made.output
    assert "export RUNNEL_TLS_AUTHORITY=" in made.output
    found = {one.name: one for one in read_certificates(folder) if one.role != "authority"}
    assert {name: one.role for name, one in found.items()} == {
        **{"B1": "broker", "B2": "broker", "B3": "broker"},
        **{"client": "client", "operator": "client"},
    }
    assert found["B1"].hosts == (
        *("B1", "localhost", "127.0.0.1", "::1"),
        *("b.example.org", "10.0.0.7"),
    )
    assert found["client"].hosts == ("client",)
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600, key
    shown = runnel("certs", "show", str(folder))
    assert shown.exit_code == 0
    assert "b.example.org" in shown.output and "PRIVATE" not in shown.output


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    files = make_folder(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    again = runnel("certs", "init", str(tmp_path))
    assert again.exit_code == 2 and "nothing is overwritten" in again.output
    assert runnel("certs", "add", str(tmp_path), "--broker", "B1").exit_code == 2
    files.certificate("alice").unlink()
    with pytest.raises(InputError, match=r"alice\.key: nothing is overwritten"):
        make_certificates(tmp_path, clients=["alice"])
    del before[files.certificate("alice")]
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_more_are_made_by_the_same_authority(tmp_path: Path) -> None:
    make_folder(tmp_path)
    assert runnel("certs", "add", str(tmp_path)).exit_code == 2, "for nobody"
    assert runnel("certs", "add", str(tmp_path), "--client", "bob").exit_code == 0
    complete_folder(tmp_path, ["B1", "B2"], ["bob"])
    assert {one.name for one in read_certificates(tmp_path)} >= {"B1", "B2", "alice", "bob"}


def test_what_has_expired_is_told(tmp_path: Path) -> None:
    make_folder(tmp_path, days=-1)
    shown = runnel("certs", "show", str(tmp_path))
    assert shown.exit_code == 1 and "EXPIRED" in shown.output
    with pytest.raises(InputError, match="the certificates of B1, alice have expired"):
        complete_folder(tmp_path, ["B1"], [])


def test_names_that_files_or_certificates_cannot_have_are_refused(tmp_path: Path) -> None:
    make_authority(tmp_path)
    for name in ("", "a/b", "..", "authority", "x" * 65, "a\n"):
        with pytest.raises(InputError):
            make_certificates(tmp_path, [name])
    with pytest.raises(InputError, match="names of their own"):
        make_certificates(tmp_path, ["B1"], ["B1"])
    assert list(tmp_path.glob("*.pem")) == [CertificateFolder(tmp_path).certificate("authority")]


def test_a_folder_without_certificates_or_an_authority_says_what_to_do(tmp_path: Path) -> None:
    for words in (("show",), ("add", "--broker", "B1")):
        done = runnel("certs", words[0], str(tmp_path), *words[1:])
        assert done.exit_code == 2 and "runnel certs init" in done.output
    (tmp_path / "x.pem").write_text("nonsense")
    done = runnel("certs", "show", str(tmp_path))
    assert done.exit_code == 2 and "x.pem: this is not a certificate in PEM" in done.output
