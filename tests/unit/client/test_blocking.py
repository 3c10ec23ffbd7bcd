"""The client for programs without an event loop: the same promises, from any thread."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from runnel.client import aio, blocking
from runnel.client.aio import State
from runnel.client.publisher import Publisher as AsyncPublisher
from runnel.client.subscription import Subscription as AsyncSubscription
from runnel.errors import (
    ClientClosed,
    ConnectionFailed,
    FilterSyntaxError,
    InputError,
    MoveFailed,
    NoCredit,
    PublicationInDoubt,
)
from runnel.testing.network import InMemoryNetwork

PATIENCE_S = 20


@contextmanager
def network(brokers: int = 1, **settings: Any) -> Iterator[InMemoryNetwork]:
    """A network; no thread is left behind."""
    before = set(threading.enumerate())
    with InMemoryNetwork(brokers, settings=settings) as running:
        yield running
    assert set(threading.enumerate()) == before


def take(subscription: blocking.BlockingSubscription, count: int) -> list[Any]:
    return [subscription.get(PATIENCE_S)["a"] for _ in range(count)]


def test_events_arrive_and_the_iteration_ends_with_the_subscription() -> None:
    with network(3) as net, net.connect_blocking("B3") as reader:
        subscription = reader.subscribe("a >= 0", timeout=PATIENCE_S)
        with net.connect_blocking("B1", name="nasdaq") as writer:
            publisher = writer.advertise("a >= 0")
            assert publisher.publish_all({"a": n} for n in range(600)) == 600
            assert publisher.confirmed == 600
            for n in range(600, 700):
                publisher.publish_nowait({"a": n}, b"x")
            publisher.flush(PATIENCE_S)
            sent = publisher.publish({"a": 700}, timeout=PATIENCE_S)
            assert (publisher.published, publisher.confirmed, publisher.in_doubt) == (701, 701, 0)
        seen = []
        for event in subscription:
            seen.append(event["a"])
            if event["a"] == 700:
                assert (event, event.publisher, event.hops) == (sent, "nasdaq", 2)
                subscription.unsubscribe()
        assert seen == list(range(701))
        assert (subscription.unread, subscription.missed) == (0, 0)


def test_every_name_of_the_asyncio_client_is_there() -> None:
    for ours, theirs in (
        (blocking.BlockingClient, aio.Client),
        (blocking.BlockingSubscription, AsyncSubscription),
        (blocking.BlockingPublisher, AsyncPublisher),
    ):
        internal = {
            "add",
            "end",
            "settle",
            "take_all",
            "take_unreported",
            "refuse",
            "take_refusals",
        }
        internal |= {"publish_batch", "wait_settled", "wait", "is_over", "live", "pause", "resume"}
        names = {name for name in vars(theirs) if not name.startswith("_")} - internal
        assert names <= set(dir(ours)), theirs


def test_reading_times_out_and_loses_nothing() -> None:
    with network() as net, net.connect_blocking() as client:
        subscription = client.subscribe("a >= 0")
        publisher = client.advertise("a >= 0")
        for timeout in (0, 0.01):
            with pytest.raises(TimeoutError):
                subscription.get(timeout)
        publisher.publish({"a": 1})
        publisher.publish({"a": 2})
        assert take(subscription, 2) == [1, 2]


def test_several_threads_may_read_and_publish() -> None:
    with network() as net, net.connect_blocking() as client:
        subscription = client.subscribe("a >= 0")
        publisher = client.advertise("a >= 0")
        with ThreadPoolExecutor(6) as threads:
            reading = [threads.submit(take, subscription, 100) for _ in range(3)]
            writing = [
                threads.submit(
                    lambda k: [publisher.publish({"a": 100 * k + n}) for n in range(100)], k
                )
                for k in range(3)
            ]
            for done in writing:
                done.result(PATIENCE_S)
            seen = [a for done in reading for a in done.result(PATIENCE_S)]
        assert sorted(seen) == list(range(300))


def test_what_one_thread_fetched_wakes_the_others_that_wait() -> None:
    with network() as net, net.connect_blocking() as client:
        subscription = client.subscribe("a >= 0")
        publisher = client.advertise("a >= 0")
        with ThreadPoolExecutor(3) as threads:
            for first in range(0, 60, 3):
                reading = [threads.submit(take, subscription, 1) for _ in range(3)]
                publisher.publish_all([{"a": first + n} for n in range(3)])
                seen = [a for done in reading for a in done.result(PATIENCE_S)]
                assert sorted(seen) == [first, first + 1, first + 2]
        with pytest.raises(TimeoutError):
            subscription.get(0)


def test_credit_without_waiting() -> None:
    with (
        network(limits={"credit_max": 2, "credit_min": 1}) as net,
        net.connect_blocking() as client,
    ):
        publisher = client.advertise("a >= 0")
        assert publisher.credit == 2
        net.kill("B1")  # so that nothing is confirmed
        publisher.publish_nowait({"a": 1})
        publisher.publish_nowait({"a": 2})
        with pytest.raises(NoCredit):
            publisher.publish_nowait({"a": 3})
        with pytest.raises(TimeoutError):
            publisher.wait_credit(0.01)
        net.restart("B1")
        publisher.wait_credit(PATIENCE_S)
        with pytest.raises(PublicationInDoubt):
            publisher.flush(PATIENCE_S)
        publisher.ready(PATIENCE_S)
        publisher.withdraw()


def test_errors_are_those_of_the_asyncio_client() -> None:
    with network() as net:
        with pytest.raises(ConnectionFailed, match="nobody listens there"):
            blocking.connect("memory://nowhere/B1", timeout=0.05)
        with net.connect_blocking() as client:
            with pytest.raises(FilterSyntaxError):
                client.subscribe("a = = 1")
            with pytest.raises(InputError, match="not what was advertised"):
                client.advertise("a > 0").publish({"a": 0})
            with pytest.raises(MoveFailed):
                client.move_to("memory://nowhere/B1", timeout=0.01)
            subscription = client.subscribe("a > 0")
        assert client.state is State.CLOSED
        assert list(subscription) == []
        for call in (client.flush, subscription.get, lambda: client.subscribe("a > 0")):
            with pytest.raises(ClientClosed):
                call()
        client.close()


def test_a_client_moves() -> None:
    with (
        network(2) as net,
        net.connect_blocking("B1") as client,
        client.subscribe("a >= 0") as subscription,
    ):
        publisher = client.advertise("a >= 0")
        client.move_to(net.url("B2"))
        assert (client.broker, client.address) == ("B2", net.url("B2"))
        subscription.ready(PATIENCE_S)
        with publisher:
            publisher.publish({"a": 1})
        assert take(subscription, 1) == [1]


def test_closing_ends_a_wait_in_another_thread() -> None:
    with network() as net, net.connect_blocking() as client:
        subscription = client.subscribe("a >= 0")
        with ThreadPoolExecutor(2) as threads:
            iterating = threads.submit(list, subscription)
            getting = threads.submit(client.subscribe("b = 1").get)
            client.close()
            assert iterating.result(PATIENCE_S) == []
            with pytest.raises(ClientClosed):
                getting.result(PATIENCE_S)


INTERRUPTED = """
import asyncio, logging, os, signal, sys, threading
from runnel.testing.network import InMemoryNetwork

logging.getLogger("asyncio").setLevel(logging.ERROR)  # that a step took long on a busy machine is no error

def interrupt_when_waiting(thread):
    # It waits once it stands in the lock of a future's result (blocking) or in the selector (asyncio).
    while True:
        frame = sys._current_frames()[thread.ident]
        names = frame.f_code.co_name, frame.f_back.f_code.co_name
        if names == ("wait", "result") or names[0] == "select":
            os.kill(os.getpid(), signal.SIGINT)
            return

def blocking(net):
    with net.connect_blocking() as client:
        subscription = client.subscribe("a >= 0")
        publisher = client.advertise("a >= 0")
        threading.Thread(target=interrupt_when_waiting, args=[threading.main_thread()]).start()
        try:
            subscription.get()
        except KeyboardInterrupt:
            publisher.publish({"a": 1})
            print("interrupted, then", subscription.get(10)["a"])

async def aio(net):
    async with net.connect() as client:
        subscription = await client.subscribe("a >= 0")
        threading.Thread(target=interrupt_when_waiting, args=[threading.main_thread()]).start()
        try:
            await subscription.get()
        finally:
            print("interrupted")

with InMemoryNetwork() as net:
    if sys.argv[1] == "blocking":
        blocking(net)
    else:
        try:
            asyncio.run(aio(net))
        except KeyboardInterrupt:
            print("left")
"""


@pytest.mark.parametrize(
    ("kind", "said"), [("blocking", "interrupted, then 1\n"), ("aio", "interrupted\nleft\n")]
)
def test_ctrl_c_interrupts_a_wait_and_leaves_cleanly(kind: str, said: str) -> None:
    # Programs inherit that a signal is ignored; a handler, such as Spark's, they do not.
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", INTERRUPTED, kind],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (said, "", 0)
