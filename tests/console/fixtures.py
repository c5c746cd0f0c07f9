"""Fixtures of the console's tests: Debian's Chromium without a window, pages that are watched, and
two servers: the program with its demonstration, and a stand-in (`stand_in.py`)."""

import atexit
import functools
import importlib.util
import os
import shutil
import time
import urllib.parse

import pytest
import redis
from conftest import REQUIRED, Server
from stand_in import StandIn

NAMES = ("chromium", "chromium-browser", "google-chrome")


def missing(reason):
    """Skips, or fails where WHERED_REQUIRE promises a browser."""
    if "browser" in REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def launch(path):
    """One browser for all test files; a second one in the same process is not possible."""
    from playwright.sync_api import sync_playwright

    # Chromium's own sandbox does not work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright.chromium.launch(executable_path=path, args=arguments)


@pytest.fixture
def chromium():
    if importlib.util.find_spec("playwright") is None:
        missing("playwright is not installed (tests/console/requirements.txt)")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("chromium is not installed (package chromium)")
    return launch(path)


def wait_until(page, condition, seconds=5):
    """Waits for an expression of JavaScript. (Playwright's own way is forbidden by the policy.)"""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        page.wait_for_timeout(10)


class Watched:
    """Pages of one test, and everything that went wrong in them."""

    def __init__(self, browser):
        self.browser = browser
        self.contexts = []
        self.faults = []
        self.hosts = set()
        self.own = set()
        # Texts of faults that the test brings about, such as "ERR_CONNECTION_REFUSED".
        self.expected = []

    def open(self, url, width=1280, height=800, wait=True, **options):
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self.contexts.append(context)
        self.own.add(urllib.parse.urlsplit(url).netloc)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", self.note)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: self.hosts.add(urllib.parse.urlsplit(one.url).netloc))
        page.goto(url)
        if wait:
            page.wait_for_selector("#state[data-state=live]")
        return page

    def note(self, message):
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} {message.location.get('url')}")

    def check(self):
        for context in self.contexts:
            context.close()
        unexpected = [
            fault for fault in self.faults if not any(text in fault for text in self.expected)
        ]
        assert unexpected == []
        assert self.hosts <= self.own, "a request to another host"


@pytest.fixture
def pages(chromium):
    """Opens pages; in the end none has an error in its console or asked another host."""
    watched = Watched(chromium)
    yield watched
    watched.check()


@pytest.fixture
def stand_in():
    """A function that starts a stand-in."""
    servers = []

    def start(**options):
        servers.append(StandIn(**options))
        return servers[-1]

    yield start
    for server in servers:
        if not server.is_over:
            server.stop()


class Demo:
    """The program's demonstration with what the tests change."""

    collection = "cities"

    def __init__(self, folder):
        self.server = Server(["--demo", "--data-dir", "data"], folder)
        self.url = self.server.url
        self.redis = redis.Redis(port=self.server.resp, protocol=2)

    def set_site(self, site, is_up):
        self.redis.execute_command("SITE.AUTO" if is_up else "SITE.DOWN", "www", site)

    def close(self):
        self.server.close()


class Made:
    """The stand-in with the same interface."""

    collection = "cafes"

    def __init__(self):
        self.server = StandIn()
        self.url = self.server.url

    def set_site(self, site, is_up):
        self.server.world.set_site("www", site, is_up)

    def close(self):
        self.server.stop()


@pytest.fixture(scope="module", params=["whered", "stand-in"])
def backend(request, tmp_path_factory):
    """Both servers, one after the other."""
    made = Demo(tmp_path_factory.mktemp("demo")) if request.param == "whered" else Made()
    yield made
    made.close()
