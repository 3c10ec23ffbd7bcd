"""TLS on real brokers: a network that works, and everybody who must not get in."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import runnel
from process.commands import Shell
from process.processes import QUICK, RUNNEL, RunningProgram, RunningPrograms
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import Address, parse_address
from runnel.net.tls import Tls
from runnel.node.tls import HANDSHAKES_MAX
from runnel.operate.ask import AskError, ask
from runnel.operate.certificate_folder import CertificateFolder
from runnel.version import __version__
from runnel.wire import PROTOCOL, Hello, encode
from support.certificates import make_folder
from support.scraping import read_metrics, value_of

BROKERS = ("B1", "B2", "B3")


@pytest.fixture
def files(tmp_path: Path) -> CertificateFolder:
    return make_folder(tmp_path / "certs", BROKERS)


@pytest.fixture
def others(tmp_path: Path) -> CertificateFolder:
    """The same names from another authority."""
    return make_folder(tmp_path / "others", BROKERS)


def environment(tls: Tls) -> dict[str, str]:
    return {**os.environ, **tls.as_environment()}


def program(tls: Tls, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RUNNEL, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(tls),
    )


def only_the_authority(files: CertificateFolder) -> Tls:
    return Tls(files.certificate("authority"))


def admin_of(broker: RunningProgram) -> Address:
    broker.wait_log(" admin=")
    found = re.search(r"admin=(\S+)", broker.log())
    assert found is not None, broker.log()
    return parse_address(found[1])


# -- a network that works -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_network_over_tls_loses_nothing_and_commands_work_there(
    processes: RunningPrograms, files: CertificateFolder
) -> None:
    b1 = processes.broker("B1", accept=["B2"], tls=files.node_table("B1"))
    b2 = processes.broker("B2", {"B1": b1.said}, accept=["B3"], tls=files.node_table("B2"))
    b3 = processes.broker("B3", {"B2": b2.said}, tls=files.node_table("B3"))
    alice = files.tls("alice")
    assert [one.said.partition(":")[0] for one in (b1, b2, b3)] == ["runnels"] * 3

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            runnel.connect(b1.said, tls=alice) as writer,
            runnel.connect(b3.said, tls=alice) as reader,
        ):
            subscription = await reader.subscribe("n >= 0")
            publisher = await writer.advertise("n >= 0")
            for n in range(200):
                await publisher.publish({"n": n}, b"x" * 40_000)
            moving = asyncio.create_task(reader.move_to(b2.said))
            await publisher.publish_all({"n": n} for n in range(200, 400))
            await moving
            assert reader.broker == "B2"
            await publisher.migrate_to(b2.said)
            await publisher.publish_all({"n": n} for n in range(400, 500))
            assert [(await subscription.get())["n"] for _ in range(500)] == list(range(500))

    asyncio.run(main())
    with runnel.blocking.connect(b1.said, tls=alice) as client:
        subscription = client.subscribe("a = 1")
        client.advertise("a = 1").publish({"a": 1})
        assert subscription.get(timeout=30)["a"] == 1
    shown = program(alice, "status", b1.said)
    assert shown.returncode == 0 and "B3" in shown.stdout, shown.stderr
    published = program(alice, "pub", "a=1", "--broker", b3.said)
    assert published.returncode == 0, published.stderr
    assert [one.stop() for one in (b3, b2, b1)] == [0, 0, 0]


def test_the_admin_listener_speaks_tls_too(
    processes: RunningPrograms, files: CertificateFolder
) -> None:
    admin = {"listen": "127.0.0.1:0"}
    b1 = processes.broker("B1", tls=files.node_table("B1"), admin=admin)
    at = admin_of(b1)
    alice = files.tls("alice")
    shown = program(alice, "status", b1.said)  # it follows the referral
    assert shown.returncode == 0, shown.stderr
    trusted = ssl.create_default_context(cafile=files.certificate("authority"))
    with pytest.raises(OSError, match=r"(?i)certificate.required"):
        urllib.request.urlopen(f"https://{at.short}/healthz", context=trusted, timeout=10).close()
    trusted.load_cert_chain(files.certificate("alice"), files.key("alice"))
    for path in ("healthz", "readyz", "metrics"):
        url = f"https://{at.short}/{path}"
        with urllib.request.urlopen(url, context=trusted, timeout=10) as page:
            assert page.status == 200
            text = page.read().decode()
    found = read_metrics(text)
    assert value_of(found, "runnel_tls_failures_total") >= 1, "the one without a certificate"
    assert value_of(found, "runnel_tls_certificate_expiry_seconds") > time.time()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{at.short}/healthz", timeout=10)
    with refused.value as answer:
        assert answer.code == 400 and b"write https://" in answer.read()


def test_certificates_of_clients_can_be_optional(
    processes: RunningPrograms, files: CertificateFolder, others: CertificateFolder
) -> None:
    tls = {**files.node_table("B1"), "require_certificate": False}
    b1 = processes.broker("B1", tls=tls)
    assert ask_with(only_the_authority(files), b1)["name"] == "B1"
    assert ask_with(files.tls("alice"), b1)["name"] == "B1"
    shown = Tls(files.certificate("authority"), others.certificate("alice"), others.key("alice"))
    with pytest.raises(AskError, match="refuses our certificate"):
        ask_with(shown, b1)
    # Its `accept` is "*".
    b2 = processes.broker("B2", {"B1": b1.said}, linked=False, tls=files.node_table("B2"))
    b2.wait_log("link-up peer=B1")


def ask_with(tls: Tls, broker: RunningProgram) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        for variable, file in tls.as_environment().items():
            patch.setenv(variable, file)
        return ask(parse_address(broker.said), Status())


# -- who must not get in ------------------------------------------------------------------------------


def wrong_tables(
    case: str, files: CertificateFolder, others: CertificateFolder, tmp_path: Path
) -> dict[str, str]:
    """What a broker shows that calls itself B2 and must not get in."""
    match case:
        case "another authority":
            return {**others.node_table("B2"), "authority": files.node_table("B2")["authority"]}
        case "another name":
            return files.node_table("B3")
    expired = make_folder(tmp_path / "expired", ["B2"], days=-1)
    shown = {**expired.node_table("B2"), "authority": files.node_table("B2")["authority"]}
    both = tmp_path / "both.pem"
    both.write_bytes(
        files.certificate("authority").read_bytes() + expired.certificate("authority").read_bytes()
    )
    return {**shown, "authority": str(both)}


@pytest.mark.parametrize(
    ("case", "at_b1", "at_b2"),
    [
        ("another authority", "is not signed by the authority", "refuses our certificate"),
        ("another name", "", "has to show a certificate for 'B2', and showed one for 'B3'"),
        ("expired", "certificate has expired", "which has expired: renew it"),
    ],
)
def test_a_broker_with_a_wrong_certificate_gets_no_link(
    processes: RunningPrograms,
    files: CertificateFolder,
    others: CertificateFolder,
    tmp_path: Path,
    case: str,
    at_b1: str,
    at_b2: str,
) -> None:
    shown = wrong_tables(case, files, others, tmp_path)
    b1 = processes.broker(
        *("B1", None),
        tls={**files.node_table("B1"), "authority": shown["authority"]},
        accept=["B2"],
    )
    b2 = processes.broker("B2", {"B1": b1.said}, linked=False, link=QUICK, tls=shown)
    b2.wait_log(at_b2)
    b1.wait_log(at_b1 or "listening")
    assert "link-up" not in b1.log() + b2.log()


@pytest.mark.slow
def test_a_neighbour_that_answers_with_a_wrong_certificate_gets_no_link(
    processes: RunningPrograms, files: CertificateFolder, others: CertificateFolder
) -> None:
    authority = files.node_table("B1")["authority"]
    foreign = {**others.node_table("B1"), "authority": authority}
    for number, (shown, said) in enumerate(
        [
            (files.node_table("B3"), "its certificate names 'B3', not 'B1'"),
            (files.node_table("alice"), "its certificate is not valid"),
            (foreign, "is not signed by the authority"),
        ]
    ):
        b1 = processes.broker("B1", tls=shown)
        b2 = processes.broker(
            "B2", {"B1": b1.said}, linked=False, link=QUICK, tls=files.node_table("B2")
        )
        b2.wait_log(said)
        assert "link-up" not in b1.log() + b2.log(), number
        b1.kill()
        b2.kill()


def test_who_speaks_tls_and_who_does_not_tell_each_other(
    processes: RunningPrograms, files: CertificateFolder
) -> None:
    secure = processes.broker("B1", tls=files.node_table("B1"))
    plain = processes.broker("B2")
    alice = files.tls("alice")

    async def fails(url: str, tls: Tls | None) -> str:
        with pytest.raises(runnel.ConnectionFailed) as error:
            await runnel.connect(url, timeout=1.5, tls=tls)
        return str(error.value)

    async def main() -> None:
        told = await asyncio.gather(
            fails(f"runnel://{parse_address(secure.said).short}", None),
            fails(f"runnels://{parse_address(plain.said).short}", alice),
            fails(secure.said, only_the_authority(files)),
            fails(secure.said, Tls()),
        )
        for text, said in zip(
            told,
            [
                "this broker speaks TLS: write runnels://",
                "write runnel://",
                "it demands a certificate, and none was shown",
                "not signed by the authority that is trusted here",
            ],
            strict=True,
        ):
            assert said in text

    asyncio.run(main())
    with pytest.raises(AskError, match="write runnels://"):
        ask(parse_address(secure.said)._replace(is_secure=False), Status())
    with pytest.raises(AskError, match="write runnel://"):
        ask_with(alice, RunsAt(f"runnels://{parse_address(plain.said).short}"))  # type: ignore[arg-type]
    dialling = processes.broker(
        "B3", {"B1": parse_address(secure.said).short}, linked=False, link=QUICK
    )
    dialling.wait_log("this broker speaks TLS: write runnels://")
    plain.wait_log("the peer speaks TLS, and TLS is not switched on here")


class RunsAt:
    """An address in place of a program."""

    def __init__(self, said: str) -> None:
        self.said = said


# -- probes -------------------------------------------------------------------------------------------


def speaks(at: Address, version: str, files: CertificateFolder) -> bool:
    """Whether a handshake succeeds with this version: by openssl, or by Python where openssl is not installed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(files.certificate("authority"))
        context.load_cert_chain(files.certificate("alice"), files.key("alice"))
        wanted = {"-tls1_2": ssl.TLSVersion.TLSv1_2, "-tls1_3": ssl.TLSVersion.TLSv1_3}[version]
        context.minimum_version = context.maximum_version = wanted
        try:
            with socket.create_connection((at.host, at.port), 10) as plain:
                context.wrap_socket(plain).close()
        except OSError:
            return False
        return True
    command = [openssl, "s_client", "-connect", at.short, version, "-verify_return_error"]
    command += ["-CAfile", str(files.certificate("authority"))]
    command += ["-cert", str(files.certificate("alice")), "-key", str(files.key("alice"))]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )
    return "Verification: OK" in done.stdout and "Cipher is TLS_" in done.stdout


def test_only_tls_1_3_is_spoken_at_any_port(
    processes: RunningPrograms, files: CertificateFolder
) -> None:
    admin = {"listen": "127.0.0.1:0"}
    b1 = processes.broker("B1", tls=files.node_table("B1"), admin=admin)
    for at in (parse_address(b1.said), admin_of(b1)):
        assert speaks(at, "-tls1_3", files)
        assert not speaks(at, "-tls1_2", files)
        with socket.create_connection((at.host, at.port), 10) as plain:
            plain.sendall(b"\0" * 64)
            answer = b"".join(iter(lambda: plain.recv(1 << 16), b""))
            assert b"write runnels://" in answer, "and no Hello"
    b1.wait_log("it does not speak TLS 1.3")


OLD_VERSIONS = {"SSL 3.0": 0x0300, "TLS 1.0": 0x0301, "TLS 1.1": 0x0302, "TLS 1.2": 0x0303}
OLD_CIPHERS = (0xC02F, 0xC030, 0xC013, 0xC014, 0x009C, 0x002F, 0x0035, 0x000A, 0x0005, 0x0000)
ALERT_RECORD = 21
WRONG_VERSION = (40, 70)  # handshake_failure, which is all that SSL knows; protocol_version


def old_client_hello(version: int) -> bytes:
    """A ClientHello as scanners send it: of this version, with every kind of cipher there was, also none."""
    ciphers = b"".join(struct.pack(">H", one) for one in OLD_CIPHERS)
    extensions = bytes.fromhex("000a00080006001700180019000b00020100000d0006000404010403")
    body = (
        struct.pack(">H", version) + bytes(32) + b"\0" + struct.pack(">H", len(ciphers)) + ciphers
    )
    body += b"\x01\0" + struct.pack(">H", len(extensions)) + extensions
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16" + struct.pack(">HH", min(version, 0x0301), len(handshake)) + handshake


PROBES = {
    "nothing": b"\r\n\r\n",
    "HTTP": b"GET / HTTP/1.0\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.0\r\n",
    "RDP": bytes.fromhex("0300000b06e00000000000"),
    "DNS over TCP": bytes.fromhex("000c0000100000000000000000"),
    "SSL 2.0": bytes.fromhex("801c0100020003000000100700c0030080010080060040ffffffffffff"),
    "Runnel, a client": encode(Hello(PROTOCOL, "client", "mallory", 5, 0, 0, 0, 0)),
    "Runnel, an operator": encode(Hello(PROTOCOL, "operator", "mallory", 5, 0, 0, 0, 0)),
    "Runnel, a broker": encode(Hello(PROTOCOL, "broker", "B2", 5, 0, 0, 0, 0)),
}


def hear(at: Address, probe: bytes) -> bytes:
    """All that a listener answers before it closes the connection."""
    with socket.create_connection((at.host, at.port), 30) as plain:
        plain.sendall(probe)
        try:
            return b"".join(iter(lambda: plain.recv(1 << 16), b""))
        except ConnectionResetError:
            return b""


def test_probes_of_every_port_find_tls_1_3_and_nothing_else(
    processes: RunningPrograms, files: CertificateFolder
) -> None:
    admin = {"listen": "127.0.0.1:0"}
    b1 = processes.broker("B1", accept=["B2"], tls=files.node_table("B1"), admin=admin)
    for at in (parse_address(b1.said), admin_of(b1)):
        for name, version in OLD_VERSIONS.items():
            answer = hear(at, old_client_hello(version))
            assert answer[0] == ALERT_RECORD and answer[6] in WRONG_VERSION, name
            assert len(answer) == 7, "the alert, and no ServerHello"
        for name, probe in PROBES.items():
            answer = hear(at, probe)
            said = b"write runnels://" in answer or b"write https://" in answer
            assert said and b"B1" not in answer and __version__.encode() not in answer, name
    assert b1.stop() == 0


# -- those that never finish --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_flood_of_handshakes_that_never_end_hurts_nobody(
    processes: RunningPrograms, files: CertificateFolder
) -> None:
    b1 = processes.broker("B1", tls=files.node_table("B1"))
    at = parse_address(b1.said)
    alice = files.tls("alice")

    async def main() -> None:
        async with asyncio.timeout(90), runnel.connect(b1.said, tls=alice) as writer:
            publisher = await writer.advertise("n >= 0")
            before = b1.memory_bytes()
            with ExitStack() as stack:
                silent = [
                    stack.enter_context(socket.create_connection((at.host, at.port), 30))
                    for _ in range(3 * HANDSHAKES_MAX)
                ]
                for one in silent[::2]:
                    one.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
                async with runnel.connect(b1.said, tls=alice) as reader:  # who comes later gets in
                    subscription = await reader.subscribe("n >= 0")
                    await publisher.publish_all({"n": n} for n in range(1_000))
                    assert [(await subscription.get())["n"] for _ in range(1_000)] == [
                        *range(1_000)
                    ]
                assert b1.memory_bytes() - before < HANDSHAKES_MAX * 100_000
                assert has_ended(silent[0])

    asyncio.run(main())
    told = [line for line in b1.log().splitlines() if "tls-failed" in line]
    assert 1 <= len(told) < 10, told
    assert b1.stop() == 0


def has_ended(connection: socket.socket) -> bool:
    """Whether the peer has ended the connection."""
    try:
        return not connection.recv(1)
    except ConnectionResetError:
        return True


# -- while it runs ------------------------------------------------------------------------------------


def test_certificates_are_exchanged_without_a_restart(
    processes: RunningPrograms, files: CertificateFolder, others: CertificateFolder
) -> None:
    b1 = processes.broker("B1", tls=files.node_table("B1"))

    def exchange() -> None:
        assert ask_with(files.tls("alice"), b1)["name"] == "B1"
        for name in ("authority", "B1"):
            shutil.copy(others.certificate(name), files.certificate(name))
        b1.signal(signal.SIGHUP)
        b1.wait_log("certificates-not-loaded")  # the key is that of the old one
        assert "is not that of the certificate" in b1.log()
        shutil.copy(others.key("B1"), files.key("B1"))
        b1.signal(signal.SIGHUP)
        b1.wait_count("certificates-loaded", 2)  # at the start, and now
        assert ask_with(others.tls("alice"), b1)["name"] == "B1"
        old = files.certificate("alice"), files.key("alice")
        with pytest.raises(AskError, match="refuses our certificate"):
            ask_with(Tls(others.certificate("authority"), *old), b1)

    async def main() -> None:
        async with asyncio.timeout(60), runnel.connect(b1.said, tls=files.tls("alice")) as stays:
            await asyncio.to_thread(exchange)  # beside it the client shows that it lives
            subscription = await stays.subscribe("a = 1")  # what is open stays open
            await (await stays.advertise("a = 1")).publish({"a": 1})
            assert (await subscription.get())["a"] == 1
            assert stays.gaps == 0

    asyncio.run(main())


def test_no_secret_is_logged(processes: RunningPrograms, files: CertificateFolder) -> None:
    b1 = processes.broker("B1", tls=files.node_table("B1"), log={"level": "debug"})
    assert ask_with(files.tls("alice"), b1)["name"] == "B1"
    shutil.copy(files.key("B1"), files.certificate("B1"))
    b1.signal(signal.SIGHUP)
    b1.wait_log("certificates-not-loaded")
    secret = [line for line in files.key("B1").read_text().splitlines() if "-----" not in line]
    assert secret and not any(line in b1.log() for line in secret)
    assert "PRIVATE KEY" not in b1.log()


def test_files_that_cannot_be_used_end_a_broker_before_it_listens(
    files: CertificateFolder, tmp_path: Path
) -> None:
    config = tmp_path / "b1.toml"
    config.write_text(
        f'name = "B1"\nlisten = "127.0.0.1:0"\n[tls]\ncertificate = "{files.certificate("B1")}"\n'
        f'key = "{tmp_path}/none.key"\nauthority = "{files.certificate("authority")}"\n'
    )
    done = program(Tls(), "broker", "--config", str(config))
    assert done.returncode == 2
    assert "none.key: No such file or directory; runnel certs init" in done.stderr


# -- runnel up ----------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


@pytest.mark.slow
def test_up_runs_a_network_over_tls_and_commands_find_its_certificates(shell: Shell) -> None:
    (shell.folder / "two.toml").write_text(
        'links = [["B1", "B2"]]\n[brokers.B1]\n[brokers.B2]\n'
        '[[clients]]\nname = "w"\nbroker = "B1"\nsubscribe = "a = 1"\n'
        '[[clients]]\nname = "p"\nbroker = "B2"\n'
        'publish = { advertise = "a = 1", events = [{ a = 1 }] }\n'
    )
    done = shell.json("up", "two.toml", "--tls", "--until-done", "--json")
    assert [row["delivered"] for row in done["clients"] if row["name"] == "w"] == [1]
    shell.run("up", "two.toml", "--tls", "--detach")  # with the same certificates
    status = shell.json("status", "--json")
    assert [one["address"][:10] for one in status["brokers"]] == ["runnels://"] * 2
    shell.run("pub", "a=1", "--broker", "B2")
    shell.run("down")


@pytest.mark.slow
def test_a_plan_is_carried_out_over_tls(shell: Shell) -> None:
    (shell.folder / "three.toml").write_text(
        'links = [["B1", "B2"], ["B2", "B3"]]\n[defaults]\noutput_bytes_per_s = 10_000_000\n'
        'profiles = { enabled = true }\nadmin = { listen = "127.0.0.1:0" }\n'
        "[brokers.B1]\n[brokers.B2]\n[brokers.B3]\n"
        '[[clients]]\nname = "w"\nbroker = "B3"\nsubscribe = "a >= 0"\n'
        '[[clients]]\nname = "p"\nbroker = "B1"\n'
        'publish = { advertise = "a >= 0", rate_per_s = 200, count = 100, events = [{ a = 1 }] }\n'
    )
    up = shell.start("up", "three.toml", "--tls").until("everything is published")
    shell.run("plan", "--sample", "1", "--out", "plan.json")
    plan = (shell.folder / "plan.json").read_text()
    assert plan.count('"runnels://') == 3 and '"runnel://' not in plan
    shell.run("apply", "plan.json", "--yes")
    status = shell.json("status", "--json")
    assert [one["generation"] for one in status["brokers"]] == [2]
    assert up.end(signal.SIGTERM) == 0
