"""The bytes that a server answers to many GEO commands, always the same ones.

    geo_replies.py PORT > FILE

Two programs whose files are equal compute sines, cosines and distances alike, to the last bit.
"""

import random
import socket
import sys

MEMBERS = 3000
SEARCHES = 1500


def commands():
    chosen = random.Random(47)

    def place():
        return repr(chosen.uniform(-180, 180)), repr(chosen.uniform(-85.05, 85.05))

    for first in range(0, MEMBERS, 100):
        words = [word for n in range(first, first + 100) for word in (*place(), f"m{n}")]
        yield ["GEOADD", "points", *words]
    for n in range(0, MEMBERS, 100):
        yield ["GEOHASH", "points", *(f"m{m}" for m in range(n, n + 100))]
        yield ["GEOPOS", "points", *(f"m{m}" for m in range(n, n + 100))]
    for _ in range(SEARCHES):
        one, other = chosen.randrange(MEMBERS), chosen.randrange(MEMBERS)
        yield ["GEODIST", "points", f"m{one}", f"m{other}", chosen.choice(["m", "km", "ft", "mi"])]
    for _ in range(SEARCHES):
        shape = chosen.choice(
            [
                ["BYRADIUS", repr(chosen.uniform(1, 3000)), "km"],
                ["BYBOX", repr(chosen.uniform(1, 3000)), repr(chosen.uniform(1, 3000)), "km"],
            ]
        )
        center = chosen.choice([["FROMLONLAT", *place()], ["FROMMEMBER", f"m{chosen.randrange(MEMBERS)}"]])
        yield ["GEOSEARCH", "points", *center, *shape, "ASC", "WITHDIST", "WITHCOORD", "WITHHASH"]


def encode(words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)


def replies(port):
    """All replies as they came, up to that of a last ECHO."""
    end = b"$3\r\nend\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        answers = b""
        for words in commands():
            connection.sendall(encode(words) + encode(["ECHO", "end"]))
            answer = b""
            while not answer.endswith(end):
                more = connection.recv(1 << 20)
                if not more:
                    raise SystemExit(f"the server closed the connection at {words[:4]}")
                answer += more
            if answer.startswith(b"-"):
                raise SystemExit(f"{words[:6]}: {answer[:200]}")
            answers += answer
    return answers


if __name__ == "__main__":
    sys.stdout.buffer.write(replies(int(sys.argv[1])))
