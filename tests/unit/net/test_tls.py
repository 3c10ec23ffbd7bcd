"""Files for TLS: contexts that speak nothing but TLS 1.3, and mistakes that are told with the file and a remedy."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

import runnel
from runnel.errors import InputError
from runnel.net.dialling import AnyDialler
from runnel.net.tls import Tls, accepting_context, certificate_name, dialling_context, explain
from runnel.operate.certificate_folder import CertificateFolder
from support.certificates import make_folder

PASSPHRASE = "correct horse"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFolder:
    return make_folder(tmp_path_factory.mktemp("certs"), ["B1", "B2"])


def test_nothing_but_tls_1_3_is_spoken(files: CertificateFolder) -> None:
    made = [
        dialling_context(files.tls("alice"), verifies_host=True),
        accepting_context(files.tls("B1"), demands_certificate=True),
    ]
    for context in made:
        assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED
    assert made[0].check_hostname
    assert made[1].num_tickets == 0, "nothing is resumed"
    asks = accepting_context(files.tls("B1"), demands_certificate=False)
    assert asks.verify_mode is ssl.CERT_OPTIONAL


def encrypted(files: CertificateFolder, folder: Path) -> Path:
    key = serialization.load_pem_private_key(files.key("B1").read_bytes(), None)
    form = serialization.BestAvailableEncryption(PASSPHRASE.encode())
    written = folder / "encrypted.key"
    written.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form)
    )
    return written


def test_files_that_cannot_be_used_are_named(files: CertificateFolder, tmp_path: Path) -> None:
    authority, certificate, key = (
        files.certificate("authority"),
        files.certificate("B1"),
        files.key("B1"),
    )
    empty = tmp_path / "empty.pem"
    empty.touch()
    missing = tmp_path / "missing.pem"
    mistakes = [
        (Tls(missing), f"authority {missing}: No such file or directory; runnel certs init"),
        (Tls(empty), f"authority {empty}: there is no certificate in PEM"),
        (Tls(key), f"authority {key}: there is no certificate in PEM"),
        (Tls(authority, missing, key), f"certificate {missing}: No such file"),
        (Tls(authority, certificate, missing), f"key {missing}: No such file"),
        (Tls(authority, tmp_path, key), f"certificate {tmp_path}: Is a directory"),
        (Tls(authority, empty, key), "one of them is not what it should be, in PEM"),
        (Tls(authority, certificate, files.key("B2")), "is not that of the certificate"),
        (Tls(authority, certificate), "one of them is not what it should be, in PEM"),
        (Tls(authority, certificate, encrypted(files, tmp_path)), "the private key for TLS is enc"),
    ]
    for tls, said in mistakes:
        with pytest.raises(InputError) as error:
            accepting_context(tls, demands_certificate=True)
        assert said in str(error.value)
        assert "BEGIN" not in str(error.value)


def test_the_environment_names_the_files(
    files: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = files.tls("alice")
    for variable, file in tls.as_environment().items():
        monkeypatch.setenv(variable, file)
    found = Tls.from_environment()
    assert found.as_environment() == tls.as_environment()
    monkeypatch.delenv("RUNNEL_TLS_CERTIFICATE")
    with pytest.raises(InputError, match="but no certificate"):
        Tls.from_environment()
    monkeypatch.setenv("RUNNEL_TLS_KEY", "")
    assert Tls.from_environment() == Tls(os.fspath(files.certificate("authority")))


def test_a_client_is_told_of_files_before_it_dials(tmp_path: Path) -> None:
    missing = Tls(tmp_path / "nowhere.pem")
    with pytest.raises(InputError, match=r"nowhere\.pem: No such file"):
        runnel.connect("runnels://127.0.0.1:7001", tls=missing)
    with pytest.raises(InputError, match=r"nowhere\.pem: No such file"):
        runnel.blocking.connect("runnels://127.0.0.1:7001", tls=missing)


def test_a_client_with_certificates_dials_nothing_without_tls(files: CertificateFolder) -> None:
    with pytest.raises(InputError, match=r"runnel://127\.0\.0\.1:7001 is without TLS"):
        runnel.connect(["runnels://127.0.0.1:7002", "127.0.0.1:7001"], tls=files.tls("alice"))
    failed: list[tuple[str, str]] = []

    class Hears:
        def failed(self, peer: str, reason: str = "") -> None:
            failed.append((peer, reason))

    async def main() -> None:
        for dialler in (AnyDialler(files.tls("alice")), AnyDialler(only_tls=True)):
            failed.clear()
            dialler.dial(Hears(), "runnel://127.0.0.1:7001")  # type: ignore[arg-type]
            async with asyncio.timeout(10):
                while not failed:
                    await asyncio.sleep(0.001)
            assert "uses nothing else" in failed[0][1], "also where the network names the address"

    asyncio.run(main())


def test_a_certificate_without_names_names_nobody() -> None:
    assert certificate_name({"subject": ((("organizationName", "x"),),)}) == ""


def test_an_unknown_error_is_told_in_openssls_words() -> None:
    error = ssl.SSLError(1, "[SSL: BAD_EXTENSION] bad extension")
    error.reason = "BAD_EXTENSION"
    assert explain(error) == "TLS failed: bad extension"
    assert "ended the connection" in explain(ConnectionResetError())
