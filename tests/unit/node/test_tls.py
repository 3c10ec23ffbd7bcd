"""The door for handshakes: bounded, and told in one line for many; brokers go by the name in their certificate."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from runnel.errors import InputError
from runnel.net.tls_layer import TlsLayer
from runnel.node.config import NodeConfig, TlsTable, read_config
from runnel.node.tls import HANDSHAKES_MAX, SOON_DAYS, NodeTls, refuse_false_name
from runnel.wire import PROTOCOL, Bye, Hello
from support.certificates import make_folder


def table(folder: Path) -> TlsTable:
    return msgspec.convert(make_folder(folder).node_table("B1"), TlsTable)


class Below(asyncio.Transport):
    """A connection whose peer says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_the_oldest_of_too_many_handshakes_gives_way(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[str] = []
        tls = NodeTls(table(tmp_path), lambda reason, peer: told.append(reason))
        below = [Below() for _ in range(HANDSHAKES_MAX + 3)]
        for one in below:
            tls.accept(asyncio.Protocol).connection_made(one)
        assert [one.is_aborted for one in below] == [True] * 3 + [False] * HANDSHAKES_MAX
        assert len(told) == tls.failures == 3 and "this was the oldest" in told[0]


def test_a_connection_may_be_given_up_before_it_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        tls = NodeTls(table(tmp_path), lambda reason, peer: None)
        layers = [tls.accept(asyncio.Protocol) for _ in range(HANDSHAKES_MAX + 1)]
        below = [Below() for _ in layers]
        for layer, one in zip(layers, below, strict=True):
            layer.connection_made(one)
        assert [one.is_aborted for one in below] == [True] + [False] * HANDSHAKES_MAX

    asyncio.run(main())


def test_a_certificate_is_to_be_renewed_in_time(tmp_path: Path) -> None:
    for days, soon in ((SOON_DAYS - 1, True), (SOON_DAYS + 1, False)):
        files = make_folder(tmp_path / str(days), days=days)
        tls = NodeTls(msgspec.convert(files.node_table("B1"), TlsTable), lambda reason, peer: None)
        assert tls.expires_soon is soon


def test_files_that_cannot_be_read_again_change_nothing(tmp_path: Path) -> None:
    config = table(tmp_path)
    tls = NodeTls(config, lambda reason, peer: None)
    before = tls.accept(asyncio.Protocol), tls.dial("B2", read_config({"name": "B1"}).address)
    Path(config.authority).write_text("nonsense")
    with pytest.raises(InputError, match="there is no certificate in PEM"):
        tls.reload()
    assert tls.dial("B2", read_config({"name": "B1"}).address).context is before[1].context
    assert isinstance(tls.accept(asyncio.Protocol), TlsLayer)


def hello(kind: str, name: str) -> Hello:
    return Hello(PROTOCOL, kind, name, 5, 0, 0, 0, 0)


@pytest.mark.parametrize("shown", ["", "B3", "b2", "B2 "])
def test_a_broker_is_who_its_certificate_says(shown: str) -> None:
    answer = refuse_false_name(hello("broker", "B2"), shown)
    assert isinstance(answer, Bye)
    assert "has to show a certificate for 'B2'" in answer.reason


def test_others_need_no_certificate_of_their_name() -> None:
    assert refuse_false_name(hello("broker", "B2"), "B2") is None
    assert refuse_false_name(hello("client", "alice"), "bob") is None
    assert refuse_false_name(hello("operator", "x"), "") is None
    assert refuse_false_name(hello("nonsense", "x"), "") is None, "the broker will say so"


TLS = {"certificate": "c", "key": "k", "authority": "a"}


def test_the_configuration_knows_whether_tls_is_on() -> None:
    off, on = read_config({"name": "B1"}), read_config({"name": "B1", "tls": TLS})
    assert (off.tls.is_on, off.address.is_secure, str(off.address)[:7]) == (False, False, "runnel:")
    assert (on.tls.is_on, on.address.is_secure, str(on.address)[:8]) == (True, True, "runnels:")
    assert on.tls.require_certificate
    admin = read_config({"name": "B1", "tls": TLS, "admin": {"listen": "127.0.0.1:7101"}})
    assert admin.admin_address is not None and admin.admin_address.is_secure


def test_whoever_asks_for_certificates_may_listen_everywhere() -> None:
    open_to_all = {"name": "B1", "listen": "0.0.0.0:7001", "admin": {"listen": "0.0.0.0:7101"}}
    assert not read_config({**open_to_all, "tls": TLS}).address.is_loopback
    for tls in ({}, TLS | {"require_certificate": False}):
        with pytest.raises(InputError, match=r"nobody is asked who he is.*\[tls\]"):
            read_config({**open_to_all, "tls": tls})


def test_with_tls_no_broker_is_taken_in_that_is_not_named() -> None:
    assert read_config({"name": "B1"}).accepts == ("*",)
    assert read_config({"name": "B1", "tls": TLS}).accepts == ()
    assert read_config({"name": "B1", "tls": TLS, "accept": ["B2"]}).accepts == ("B2",)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"tls": {"certificate": "c", "key": "k"}}, "tls.authority: TLS needs three files"),
        ({"tls": {"key": "k"}}, "tls.certificate: TLS needs three files"),
        ({"tls": TLS | {"require_certificate": 1}}, "tls.require_certificate: must be true or"),
        ({"listen": "runnels://127.0.0.1:7001"}, "listen: 'runnels://127.0.0.1:7001' is an addr"),
        ({"neighbours": {"B2": "runnels://h:1"}}, "neighbours.B2: 'runnels://h:1' is an address"),
        ({"admin": {"listen": "runnels://127.0.0.1:7"}}, "admin.listen: 'runnels://127.0.0.1:7'"),
        (
            {"tls": TLS, "neighbours": {"B2": "runnel://h:1"}},
            'neighbours.B2: with [tls] nothing but TLS is spoken: write "h:1"',
        ),
        ({"tls": TLS, "listen": "runnel://127.0.0.1:1"}, "listen: with [tls] nothing but TLS is"),
    ],
)
def test_what_does_not_go_together_is_refused(tables: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as error:
        read_config({"name": "B1", **tables})
    assert str(error.value).startswith(said)


def test_a_scheme_may_be_written_with_tls() -> None:
    config: NodeConfig = read_config(
        {
            **{"name": "B1", "tls": TLS, "listen": "runnels://127.0.0.1:7001"},
            "neighbours": {"B2": "runnels://h:1", "B3": "h:2"},
        }
    )
    assert str(config.address) == "runnels://127.0.0.1:7001"
