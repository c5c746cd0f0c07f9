"""What goes wrong around an open page: no data, no token, no server, markup in names, millions."""

import random
import re
import socket
import subprocess
import threading
import time

import redis
import requests
from conftest import BINARY
from fixtures import backend, chromium, pages, stand_in, wait_until  # noqa: F401
from stand_in import SCRIPT

GONE = [
    "ERR_CONNECTION_REFUSED",
    "ERR_CONNECTION_RESET",
    "ERR_EMPTY_RESPONSE",
    "ERR_INCOMPLETE_CHUNKED",
]
VIEWS = ("lookup", "sites", "points", "feeds", "server")


def look_up(page, address="192.0.2.1"):
    page.fill("#address", address)
    page.press("#address", "Enter")
    page.wait_for_selector("#view-lookup .asked")


def test_without_data_each_view_says_what_to_configure(serve, pages, tmp_path):
    """The examples that are shown are configurations that `whered check` takes."""
    server = serve("--data-dir", "data")
    page = pages.open(server.url)
    look_up(page)
    shown = {}
    for view, title in [
        ("lookup", "No database"),
        ("sites", "No pool"),
        ("points", "No collection"),
        ("feeds", "No feed"),
    ]:
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"#view-{view} h3:has-text('{title}')")
        shown[view] = page.inner_text(f"#view-{view} pre")
    page.click("#tab-server")
    page.wait_for_selector("#view-server .badge")
    assert shown["points"].startswith("redis-cli -p 6380 GEOADD")
    config = tmp_path / "shown.toml"
    for view in ("sites", "feeds"):
        config.write_text(shown[view])
        # The server that shows it holds the data directory.
        command = [BINARY, "check", "--take-over", config]
        checked = subprocess.run(command, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
    config.write_text(shown["lookup"])
    checked = subprocess.run([BINARY, "check", config], capture_output=True, text=True)
    # The file that it names is not there; all else is right.
    assert "city.mmdb" in checked.stderr and "unknown" not in checked.stderr


def test_a_server_without_the_newer_routes_is_asked_now_and_then(stand_in, pages):
    pages.expected = ["status of 404"]
    server = stand_in(lacks=("/v1/stream", "/v1/status", "/v1/feeds"), move_seconds=0)
    page = pages.open(server.url, wait=False)
    page.wait_for_selector("#state[data-state=polling]")
    for view in VIEWS:
        page.click(f"#tab-{view}")
    page.wait_for_selector("#view-server .badge.good")
    page.click("#tab-sites")
    page.wait_for_selector("#view-sites td")
    server.world.set_site("www", "fra", False)
    page.wait_for_selector("#view-sites tr.down", timeout=8000)


def test_names_with_markup_are_shown_as_text(stand_in, pages):
    server = stand_in(is_hostile=True)
    page = pages.open(server.url)
    look_up(page)
    page.evaluate(
        "document.querySelectorAll('#view-lookup details').forEach((it) => (it.open = true))"
    )
    seen = page.inner_text("#view-lookup")
    assert seen.count(SCRIPT) > 10
    page.click("#tab-sites")
    page.wait_for_selector("#view-sites[data-generation]")
    page.select_option("#pool", index=1)
    page.wait_for_selector("#view-sites td")
    assert SCRIPT in page.inner_text("#view-sites") and SCRIPT in page.inner_text("#legend")
    page.click("#tab-points")
    page.select_option("#collection", index=2)
    page.wait_for_selector("#view-points[data-kind=named][data-total='12']")
    box = page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#nearest li")
    assert SCRIPT in page.inner_text("#nearest")
    for view in ("feeds", "server"):
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"#view-{view} .card")
        wait_until(page, f"document.getElementById('view-{view}').innerText.includes('onerror')")
    assert page.title() == "whered"
    assert page.locator("img").count() == 1, "the mark beside the name"
    assert page.locator("script").count() == 1


def test_invisible_characters_are_written_out(stand_in, pages):
    server = stand_in(move_seconds=0)
    turned, nothing = "a\u202eb", "\u0000\u200b\ufeff"
    server.world.members = {"x": [(turned, 8.0, 50.0), (nothing, 8.1, 50.0)]}
    page = pages.open(f"{server.url}/#points/x")
    page.wait_for_selector("#view-points[data-kind]")
    box = page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#nearest li")
    text = page.inner_text("#nearest")
    assert "a\\u{202e}b" in text and "\\u{0}\\u{200b}\\u{feff}" in text


def test_a_token_is_asked_for_kept_in_the_tab_and_a_wrong_one_is_said(stand_in, pages):
    pages.expected = ["status of 401"]
    server = stand_in(token="s3cret")
    page = pages.open(server.url, wait=False)
    page.wait_for_selector("#token-dialog[open]")
    assert page.inner_text("#token-error") == ""
    page.fill("#token-input", "two words")
    page.press("#token-input", "Enter")
    assert "visible ASCII" in page.inner_text("#token-error")
    page.fill("#token-input", "wrong")
    page.press("#token-input", "Enter")
    page.wait_for_selector("#token-error:has-text('refused')")
    page.fill("#token-input", "s3cret")
    page.press("#token-input", "Enter")
    page.wait_for_selector("#state[data-state=live]")
    look_up(page)
    assert page.evaluate("sessionStorage.length") == 1
    assert page.evaluate("Object.values(localStorage)").count("s3cret") == 0
    page.reload()
    page.wait_for_selector("#state[data-state=live]")
    page.click("#token")
    page.click("#token-forget")
    page.wait_for_selector("#state[data-state=refused]")
    assert page.evaluate("sessionStorage.length") == 0


def test_a_server_that_stops_is_said_and_retried_with_growing_pauses(stand_in, pages):
    pages.expected = GONE
    server = stand_in()
    page = pages.open(server.url)
    page.click("#tab-sites")
    page.wait_for_selector("#view-sites[data-generation]")
    tries = []
    page.on("request", lambda one: tries.append(time.monotonic()) if "stream" in one.url else None)
    server.stop()
    page.wait_for_selector("#banner:not([hidden])")
    assert page.inner_text("#state-text") == "no answer"
    assert re.search(r"Next try in \d+ s", page.inner_text("#banner"))
    page.wait_for_timeout(8500)
    pauses = [after - before for before, after in zip(tries, tries[1:], strict=False)]
    print("\npauses:", [round(pause, 1) for pause in pauses])
    assert len(pauses) >= 2 and all(b > a * 1.3 for a, b in zip(pauses, pauses[1:], strict=False))
    again = stand_in(port=server.server_address[1])
    again.world.down.add(("www", "nyc"))
    page.click("#retry")
    page.wait_for_selector("#state[data-state=live]")
    page.wait_for_selector("#banner", state="hidden")
    page.wait_for_selector("#view-sites tr.down:has-text('nyc')")


def test_the_program_stopped_and_started_again_goes_on(serve, pages):
    pages.expected = GONE
    server = serve("--demo", "--data-dir", "data")
    page = pages.open(server.url)
    look_up(page)
    code, seconds = server.stop()
    assert code == 0 and seconds < 5, "an open page does not hold the server up"
    page.wait_for_selector("#banner:not([hidden])")
    # The answer stays to be read.
    assert "Frankfurt" in page.inner_text("#view-lookup")


def test_what_is_not_there_is_404_and_says_so(backend, pages):
    for path in ("console/gone.js", "console/", "console/npm/package.json", "favicon.ico"):
        assert requests.get(f"{backend.url}/{path}", timeout=5).status_code == 404, path
    pages.expected = ["status of 404"]
    page = pages.open(backend.url)
    refused = page.evaluate(
        "fetch('v1/collections/none/within?box=0,0,1,1').then((answer) => answer.status)"
    )
    assert refused == 404


def test_nothing_from_elsewhere_can_run(backend, pages):
    pages.expected = ["Content Security Policy", "Content-Security-Policy"]
    page = pages.open(backend.url)
    ran = page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = 1";
            document.body.append(script);
            const image = document.createElement("img");
            image.setAttribute("onerror", "window.ran = 2");
            image.src = "console/gone.png";
            document.body.append(image);
            return new Promise((resolve) => setTimeout(() => resolve(window.ran ?? null), 500));
        }"""
    )
    assert ran is None
    pages.expected.append("status of 404")


def test_ten_million_members_are_clusters(stand_in, pages):
    server = stand_in(move_seconds=0)
    page = pages.open(f"{server.url}/#points/stars")
    page.wait_for_selector("#view-points[data-kind=clusters][data-total='10000000']")
    assert page.evaluate("whered.points.clusters.length") == 2000
    began = page.evaluate("performance.now()")
    page.evaluate("whered.map.zoomBy(2)")
    page.wait_for_timeout(1000)
    assert page.evaluate("whered.points.kind") == "clusters"
    assert page.evaluate("performance.now()") - began < 5000
    # A click on a cluster goes closer.
    scale = page.evaluate("whered.map.transform.k")
    x, y = page.evaluate(
        "(({ x, y }) => whered.map.transform.apply([x, y]))(whered.points.clusters[1000])"
    )
    box = page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + x, box["y"] + y)
    wait_until(page, f"whered.map.transform.k > {scale * 3}")


def test_a_page_in_another_tab_reads_no_points(stand_in, pages):
    server = stand_in(points=6000)
    page = pages.open(f"{server.url}/#points/vans")
    page.wait_for_selector("#view-points[data-kind=cloud]")
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
    page.wait_for_timeout(1000)
    before = server.world.requests.count("/v1/collections/vans/points")
    page.wait_for_timeout(1000)
    assert server.world.requests.count("/v1/collections/vans/points") == before


def test_moves_by_name_are_shown_and_removed_members_go(stand_in, pages):
    server = stand_in(move_seconds=0)
    server.world.members = {"x": [("one", 8.0, 50.0), ("two", 9.0, 50.0)]}
    page = pages.open(f"{server.url}/#points/x")
    page.wait_for_selector("#view-points[data-total='2']")
    # The stream is connected anew for the collection.
    page.wait_for_timeout(500)
    moved = {
        "collection": "x",
        "changes": [["one", 20.0, 30.0], ["three", 1.0, 2.0]],
        "removed": ["two"],
    }
    server.world.tell("move", moved)
    names = "[...whered.points.named.values()].map((one) => one.member).join()"
    wait_until(page, f"{names} === 'one,three'")
    assert page.evaluate("whered.points.named.get('text one').longitude") == 20.0


FRAMES = """async (count) => {
    const { map, points } = whered;
    const body = new ArrayBuffer(8 + 8 * count);
    const head = new DataView(body);
    head.setUint32(0, 1, true);
    head.setUint32(4, count, true);
    const degrees = new Float32Array(body, 8);
    for (let at = 0; at < count; at += 1) {
        degrees[2 * at] = Math.random() * 320 - 160;
        degrees[2 * at + 1] = Math.random() * 120 - 55;
    }
    const before = map.frames;
    const began = performance.now();
    while (performance.now() - began < 3000) {
        for (let at = 0; at < 2 * count; at += 1) degrees[at] += Math.random() * 0.1 - 0.05;
        points.setCloud(body);
        map.invalidate("points");
        await new Promise(requestAnimationFrame);
    }
    return (1000 * (map.frames - before)) / (performance.now() - began);
}"""


def test_frames_of_a_hundred_thousand_moving_points_are_measured(stand_in, pages):
    server = stand_in(points=6000, move_seconds=0)
    page = pages.open(f"{server.url}/#points/vans")
    page.wait_for_selector("#view-points[data-kind=cloud]")
    frames = page.evaluate(FRAMES, 100_000)
    assert frames > 0
    print(
        f"\n100,000 points, each moved for each frame: {frames:.0f} frames/s (bar 20, reach for 60)"
    )


def moves(count, shift):
    """Commands that set all members, as they go over the wire."""
    chance = random.Random(3)
    made = b""
    for start in range(0, count, 1000):
        words = [b"GEOADD", b"vans"]
        for at in range(start, start + 1000):
            place = chance.uniform(-160, 160) + shift, chance.uniform(-50, 60) + shift
            words += [b"%.5f" % place[0], b"%.5f" % place[1], b"van-%d" % at]
        made += b"*%d\r\n" % len(words)
        made += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return made


def test_a_hundred_thousand_members_that_move_in_the_program_are_measured(serve, pages):
    server = serve("--http", "127.0.0.1:0")
    rounds = [moves(100_000, shift) for shift in (0.0, 0.2, 0.4)]
    is_over = threading.Event()
    sent = []

    def move():
        with socket.create_connection(("127.0.0.1", server.resp)) as connection:
            while not is_over.is_set():
                connection.sendall(rounds[len(sent) % len(rounds)])
                replies = 0
                while replies < 100:
                    replies += connection.recv(65536).count(b"\n")
                sent.append(1)
                time.sleep(0.05)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        page = pages.open(f"{server.url}/#points/vans")
        page.wait_for_selector("#view-points[data-kind=cloud][data-total='100000']", timeout=20_000)
        frames, times = page.evaluate("whered.map.frames"), len(sent)
        page.wait_for_timeout(4000)
        shown = (page.evaluate("whered.map.frames") - frames) / 4
        moved = (len(sent) - times) / 4
    finally:
        is_over.set()
        mover.join(timeout=30)
    assert shown > 0
    print(f"\n100,000 members, each moved {moved:.1f} times/s: shown anew {shown:.1f} times/s")


def test_the_program_gives_names_with_markup_that_stay_text(serve, pages):
    server = serve("--demo", "--data-dir", "data")
    with redis.Redis(port=server.resp) as client:
        client.execute_command("GEOADD", SCRIPT, 8.0, 50.0, SCRIPT, 9.0, 50.0, b"caf\xe9\x1b[31m")
        client.execute_command("CIDR.ADD", SCRIPT, "VALUE", SCRIPT, "192.0.2.0/24")
    page = pages.open(server.url)
    look_up(page)
    assert page.inner_text("#view-lookup").count(SCRIPT) == 2, "a set and its value"
    page.click("#tab-points")
    page.wait_for_selector("#view-points[data-kind]")
    page.select_option("#collection", value=SCRIPT)
    page.wait_for_selector("#view-points[data-total='2']")
    box = page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#nearest li")
    text = page.inner_text("#nearest")
    assert SCRIPT in text and "caf\ufffd\\u{1b}[31m" in text
    assert page.title() == "whered" and page.locator("img").count() == 1
