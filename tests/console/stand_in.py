"""A stand-in for a server: the routes of HTTP that the console reads, with made-up data.

For looking at the console without a build, and for what a real server is hard to bring to: names
with markup in every field, states that come and go at a word, a stream that goes silent.

    python3 tests/console/stand_in.py 8090 [--empty] [--hostile] [--token T] [--points N]

POST /stand-in {"down": ["www", "fra"]} and {"up": [...]} change a site's state.
"""

import argparse
import json
import math
import pathlib
import queue
import random
import struct
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES = pathlib.Path(__file__).resolve().parents[2] / "crates/whered-server/console"
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SITES = [
    ("fra", 8.68, 50.11),
    ("lon", -0.13, 51.51),
    ("nyc", -74.0, 40.71),
    ("chi", -87.63, 41.88),
    ("lax", -118.24, 34.05),
    ("gru", -46.63, -23.55),
    ("jnb", 28.05, -26.2),
    ("bom", 72.88, 19.08),
    ("sin", 103.82, 1.35),
    ("nrt", 139.69, 35.69),
]
# Where people live, roughly: centres of the made-up clients and members.
TOWNS = [(x, y) for _, x, y in SITES] + [
    (2.35, 48.86),
    (37.62, 55.75),
    (31.24, 30.04),
    (3.38, 6.45),
    (77.2, 28.6),
    (116.4, 39.9),
    (121.5, 31.2),
    (127, 37.5),
    (151.2, -33.9),
    (-99.1, 19.4),
    (-58.4, -34.6),
    (-77, -12),
    (-122.3, 47.6),
    (-96.8, 32.8),
    (12.5, 41.9),
    (-3.7, 40.4),
    (21, 52.2),
    (18, 59.3),
    (100.5, 13.7),
    (106.8, -6.2),
]
MILLIONS = 10_000_000
SCRIPT = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def distance(a, b):
    """Meters between two places, by the haversine formula."""
    (x1, y1), (x2, y2) = [(math.radians(x), math.radians(y)) for x, y in (a, b)]
    part = math.sin((y2 - y1) / 2) ** 2
    part += math.cos(y1) * math.cos(y2) * math.sin((x2 - x1) / 2) ** 2
    return 2 * 6372797.560856 * math.asin(min(1, math.sqrt(part)))


class World:
    """The data, and who listens to its changes."""

    def __init__(
        self, points=3000, is_empty=False, is_hostile=False, token=None, move_seconds=0.1, lacks=()
    ):
        self.token = token
        # Paths that this server does not have.
        self.lacks = lacks
        self.requests = []
        self.is_empty = is_empty
        self.tail = f" {SCRIPT}" if is_hostile else ""
        self.generation = 1
        self.down = set()
        self.listeners = []
        self.lock = threading.Lock()
        self.began = time.time()
        self.rates = random.Random(7)
        chance = random.Random(1)
        self.clients = [self.around(chance, 4.0) for _ in range(6000)] + TOWNS
        sizes = {"vans": points, "cafes": 800, "taxis" + self.tail: 12}
        self.members = {
            name: [(f"{name}-{at}{self.tail}", *self.around(chance, 3.0)) for at in range(size)]
            for name, size in sizes.items()
        }
        self.move_seconds = move_seconds
        threading.Thread(target=self.move, daemon=True).start()

    @staticmethod
    def around(chance, spread):
        x, y = chance.choice(TOWNS)
        return max(-179, min(179, chance.gauss(x, spread))), max(
            -60, min(75, chance.gauss(y, spread * 0.7))
        )

    def move(self):
        """Moves all vans, some of them by name; so many at once are a `resync`."""
        while self.move_seconds:
            time.sleep(self.move_seconds)
            angle = time.time() - self.began
            dx, dy = 0.02 * math.cos(angle), 0.02 * math.sin(angle)
            vans = [(name, x + dx, y + dy) for name, x, y in self.members["vans"]]
            self.members["vans"] = vans
            if len(vans) > 5000:
                self.tell("resync", {"collection": "vans"})
            else:
                self.tell("move", {"collection": "vans", "changes": vans, "removed": []})

    def tell(self, event, data):
        with self.lock:
            for listener in self.listeners:
                try:
                    listener.put_nowait((event, data))
                except queue.Full:
                    pass

    def set_site(self, pool, site, is_up):
        key = (pool, site)
        self.down.discard(key) if is_up else self.down.add(key)
        self.generation += 1
        manual = "auto" if is_up else "down"
        state = "up" if is_up else "down"
        site = {"pool": pool, "site": site, "healthy": is_up, "state": state, "override": manual}
        self.tell("site", site)
        self.tell("generation", {"generation": self.generation})

    def sites(self):
        if self.is_empty:
            return []
        return [
            {
                "pool": pool,
                "site": name + self.tail,
                "longitude": x,
                "latitude": y,
                "healthy": (pool, name) not in self.down,
                "state": "down" if (pool, name) in self.down else "up",
                "override": "down" if (pool, name) in self.down else "auto",
                "addresses": ["192.0.2.10"],
            }
            for pool, size in (("www", 10), ("static" + self.tail, 3))
            for name, x, y in SITES[:size]
        ]

    def nearest(self, pool, place):
        up = [site for site in self.sites() if site["pool"] == pool and site["healthy"]]
        return min(
            up, key=lambda one: distance(place, (one["longitude"], one["latitude"])), default=None
        )

    def explain(self, pool, place, question):
        own = [site for site in self.sites() if site["pool"] == pool]
        chosen = self.nearest(pool, place)
        candidates = [
            {
                "name": one["site"],
                "longitude_degrees": one["longitude"],
                "latitude_degrees": one["latitude"],
                "distance_meters": distance(place, (one["longitude"], one["latitude"])),
                "healthy": one["healthy"],
                "eligible": one is not None
                and chosen is not None
                and one["site"] == chosen["site"],
            }
            for one in own
        ]
        return {
            "question": {"job": "steer", "pool": pool, **question},
            "generation": self.generation,
            "database": {"name": "city", "type": "City", "build_epoch_seconds": 1795132800},
            "prefix": "192.0.2.0/26",
            "record": self.record(place),
            "set_entry": None,
            "rule": None,
            "map": None,
            "candidates": candidates,
            "choice": chosen["site"] if chosen else None,
            "scope_length_bits": 26,
        }

    def record(self, place):
        return {
            "city": {"names": {"en": "Frankfurt am Main" + self.tail}},
            "country": {"iso_code": "DE", "names": {"en": "Germany"}},
            "location": {"longitude": place[0], "latitude": place[1], "time_zone": "Europe/Berlin"},
            "list" + self.tail: [1, 2.5, True, None, "text" + self.tail],
        }

    def feeds(self):
        if self.is_empty:
            return []
        waiting = self.rates.randrange(40)
        return [
            {
                "name": "sightings" + self.tail,
                "tables": ["positions" + self.tail],
                "backlog": {"uploads": waiting, "bytes": waiting * 81_234},
                "lag_seconds": waiting / 20,
                "uploads_per_second": 12.25,
                "records_per_second": 48211.5,
                "uploads": 123456,
                "rejected_uploads": 2,
                "records": 51234567,
                "rejected_records": 17,
                "last_error": "line 3: no number in 'x'" + self.tail,
                "failed": None,
                "full": None,
                "out_of_service": False,
            }
        ]

    def status(self):
        return {
            "version": "0.1.0",
            "commit": "3abdc96549aa",
            "uptime_seconds": time.time() - self.began + 90000,
            "generation": self.generation,
            "pid": 4711,
            "ready": True,
            "reason": None,
            "counts": {"databases": 2, "sets": 3, "rulesets": 1, "collections": 3, "pools": 2},
            "disk": {"journal_bytes": 8388608, "free_bytes": 52_000_000_000},
            "listeners": [
                {"kind": "resp", "address": "127.0.0.1:6380"},
                {"kind": "http", "address": "127.0.0.1:8080" + self.tail},
            ],
        }


class Refusal(Exception):
    def __init__(self, status, code, message, field=None):
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "message": message, "field": field}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = None

    def log_message(self, *_):
        pass

    def reply(self, status, kind, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, data, status=200):
        self.reply(status, "application/json", json.dumps(data).encode() + b"\n")

    def do_GET(self):
        self.answer(None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(json.loads(body))

    def answer(self, body):
        url = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
        query = dict(urllib.parse.parse_qsl(url.query))
        self.world.requests.append(url.path)
        if self.server.is_over:
            self.close_connection = True
            return None
        try:
            if url.path in self.world.lacks:
                raise Refusal(404, "no_such_path", "no such path", "path")
            if parts[0] in ("", "console"):
                return self.file("index.html" if url.path == "/" else "/".join(parts[1:]))
            if parts == ["stand-in"]:
                for word, (pool, site) in body.items():
                    self.world.set_site(pool, site, word == "up")
                return self.reply_json({})
            token = self.world.token
            if (
                token
                and parts != ["readyz"]
                and self.headers.get("Authorization") != f"Bearer {token}"
            ):
                raise Refusal(
                    401,
                    "unauthorized",
                    "the header 'Authorization: Bearer <token>' is missing or wrong",
                )
            self.route(parts, query, body)
        except Refusal as refusal:
            self.reply_json({"error": refusal.error}, refusal.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def file(self, name):
        path = FILES / name
        if "/" in name or not path.is_file():
            raise Refusal(404, "not_found", "no such file of the console")
        headers = [("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff")]
        self.reply(200, TYPES[name.rsplit(".", 1)[1]], path.read_bytes(), headers)

    def route(self, parts, query, body):
        world = self.world
        match parts:
            case ["readyz"] | ["healthz"]:
                self.reply_json({"status": "ready", "generation": world.generation})
            case ["v1", "status"]:
                self.reply_json(world.status())
            case ["v1", "feeds"]:
                self.reply_json({"feeds": world.feeds()})
            case ["v1", "sites"]:
                self.reply_json({"sites": world.sites()})
            case ["v1", "databases"]:
                names = [] if world.is_empty else ["city" + world.tail, "asn"]
                self.reply_json({"generation": 1, "databases": [{"name": name} for name in names]})
            case ["v1", "explain"]:
                self.reply_json(self.explain(query))
            case ["v1", "stream"]:
                self.stream()
            case ["v1", "pools", pool, "catchment"]:
                self.reply_json(self.catchment(pool, float(query["cell_degrees"])))
            case ["v1", "pools", pool, "choose"]:
                place = float(query["longitude"]), float(query["latitude"])
                question = {"longitude": place[0], "latitude": place[1]}
                self.reply_json(world.explain(pool, place, question))
            case ["v1", "collections"]:
                found = [] if world.is_empty else world.members.items()
                rows = [
                    {
                        "name": name,
                        "members": len(all),
                        "kind": "points",
                        "bounds": [-125, -45, 155, 65],
                    }
                    for name, all in found
                ]
                if not world.is_empty:
                    rows.append(
                        {"name": "stars", "members": MILLIONS, "kind": "points", "bounds": None}
                    )
                self.reply_json({"collections": rows, "next": None})
            case ["v1", "collections", "stars", "clusters"]:
                self.reply_json(stars(query))
            case ["v1", "collections", name, kind]:
                if name not in world.members:
                    raise Refusal(404, "no_such_collection", f"no such collection '{name}'", "name")
                self.collection(name, kind, query, body)
            case _:
                raise Refusal(404, "no_such_path", "no such path", "path")

    def explain(self, query):
        world, address = self.world, query["address"]
        if not all(one in "0123456789abcdefABCDEF.:" for one in address):
            raise Refusal(400, "invalid_address", f"'{address}' is no IP address", "address")
        answer = {"address": address, "databases": [], "sets": [], "rules": [], "pools": []}
        if world.is_empty:
            return answer
        place = (8.68, 50.11) if address.startswith("192.") else (139.7, 35.7)
        answer["databases"] = [
            {
                "database": "city" + world.tail,
                "prefix": "192.0.2.0/26",
                "record": world.record(place),
            },
            {"database": "asn", "prefix": "192.0.0.0/8", "record": None},
        ]
        answer["sets"] = [
            {
                "set": "bogons" + world.tail,
                "prefix": "192.0.2.0/24",
                "value": "documentation" + world.tail,
            }
        ]
        rule = {
            "number": 3,
            "origin": "edge.rules:7" + world.tail,
            "text": "src 192.0.2.0/24 drop" + world.tail,
        }
        answer["rules"] = [
            {"ruleset": "edge" + world.tail, "verdict": "drop", "rule": rule},
            {"ruleset": "inner", "verdict": "accept", "rule": None},
        ]
        question = {"address": address, "prefix_length_bits": 32, "from_client_subnet": False}
        pools = dict.fromkeys(site["pool"] for site in world.sites())
        answer["pools"] = [world.explain(pool, place, question) for pool in pools]
        return answer

    def catchment(self, pool, side):
        own = [site for site in self.world.sites() if site["pool"] == pool]
        up = [(at, site) for at, site in enumerate(own) if site["healthy"]]
        cells = {}
        for x, y in self.world.clients:
            near = min(
                up,
                key=lambda one: (one[1]["longitude"] - x) ** 2 + (one[1]["latitude"] - y) ** 2,
                default=(None,),
            )
            key = (math.floor(x / side) * side, math.floor(y / side) * side, near[0])
            old = cells.get(key, (0, 0))
            cells[key] = (old[0] + 256 * (1 + int(abs(x * 997) % 400)), old[1] + 1)
        return {
            "pool": pool,
            "database": "city",
            "generation": self.world.generation,
            "sites": [site["site"] for site in own],
            "cells": [[*key, *value] for key, value in cells.items()],
            "took_microseconds": 1234,
        }

    def collection(self, name, kind, query, body):
        began = time.perf_counter()
        members = self.world.members[name]
        if "box" in query:
            west, south, east, north = map(float, query["box"].split(","))
            found = [one for one in members if west <= one[1] <= east and south <= one[2] <= north]
        elif "radius_meters" in query:
            center, radius = (
                (float(query["longitude"]), float(query["latitude"])),
                float(query["radius_meters"]),
            )
            found = [one for one in members if distance(center, one[1:]) <= radius]
        elif body:
            ring = body["coordinates"][0]
            found = [one for one in members if inside(ring, *one[1:])]
        else:
            found = members
        took = lambda: int((time.perf_counter() - began) * 1e6)  # noqa: E731
        hit = lambda one: {"member": one[0], "longitude": one[1], "latitude": one[2]}  # noqa: E731
        if kind == "within":
            count, start = int(query.get("count", 1000)), int(query.get("cursor", 0))
            end = start + count
            following = str(end) if end < len(found) else None
            hits = [hit(one) for one in found[start:end]]
            self.reply_json(
                {
                    "collection": name,
                    "total": len(found),
                    "hits": hits,
                    "next": following,
                    "took_microseconds": took(),
                }
            )
        elif kind == "near":
            center = float(query["longitude"]), float(query["latitude"])
            ranked = sorted((distance(center, one[1:]), one) for one in members)[
                : int(query["count"])
            ]
            hits = [{**hit(one), "distance_meters": meters} for meters, one in ranked]
            self.reply_json({"collection": name, "count": len(hits), "hits": hits})
        elif kind == "points":
            values = [value for one in found[: int(query["limit"])] for value in one[1:]]
            body = struct.pack(f"<II{len(values)}f", 1, len(values) // 2, *values)
            self.reply(200, "application/octet-stream", body, [("x-whered-total", str(len(found)))])
        elif kind == "clusters":
            side = 360 / 2 ** (int(query["zoom"]) + 3)
            groups = {}
            for one in found:
                groups.setdefault((one[1] // side, one[2] // side), []).append(one)
            clusters = []
            for group in groups.values():
                x, y = (sum(one[at] for one in group) / len(group) for at in (1, 2))
                only = {"member": group[0][0]} if len(group) == 1 else {}
                clusters.append({"longitude": x, "latitude": y, "count": len(group), **only})
            self.reply_json(
                {
                    "collection": name,
                    "total": len(found),
                    "clusters": clusters,
                    "took_microseconds": took(),
                }
            )
        else:
            raise Refusal(404, "no_such_path", "no such path", "path")

    def stream(self):
        own = queue.Queue(maxsize=50)
        with self.world.lock:
            self.world.listeners.append(own)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for site in self.world.sites():
                known = {key: site[key] for key in ("pool", "site", "healthy", "state", "override")}
                self.wfile.write(f"event: site\ndata: {json.dumps(known)}\n\n".encode())
            while not self.server.is_over:
                try:
                    event, data = own.get(timeout=0.2)
                except queue.Empty:
                    continue
                self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        finally:
            with self.world.lock:
                self.world.listeners.remove(own)


def stars(query):
    """Ten million members as clusters, without having them."""
    west, south, east, north = map(float, query["box"].split(","))
    across, down = 50, 40
    clusters = [
        {
            "longitude": west + (east - west) * (x + 0.5) / across,
            "latitude": south + (north - south) * (y + 0.5) / down,
            "count": MILLIONS // (across * down),
        }
        for x in range(across)
        for y in range(down)
    ]
    return {
        "collection": "stars",
        "total": MILLIONS,
        "clusters": clusters,
        "took_microseconds": 900,
    }


def inside(ring, x, y):
    """Whether a place lies in a ring on the flat map."""
    is_inside = False
    for (x1, y1), (x2, y2) in zip(ring, ring[1:], strict=False):
        if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
            is_inside = not is_inside
    return is_inside


class StandIn(ThreadingHTTPServer):
    """A server on loopback; `stop` also ends its streams."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port=0, **options):
        self.world = World(**options)
        self.is_over = False
        super().__init__(("127.0.0.1", port), type("Own", (Handler,), {"world": self.world}))
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self):
        self.is_over = True
        self.world.move_seconds = 0
        self.shutdown()
        self.server_close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--token")
    parser.add_argument("--points", type=int, default=3000)
    given = parser.parse_args()
    server = StandIn(
        given.port,
        points=given.points,
        is_empty=given.empty,
        is_hostile=given.hostile,
        token=given.token,
    )
    print(server.url, flush=True)
    threading.Event().wait()
