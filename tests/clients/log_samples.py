"""Makes logs of every named format: for each line its bytes, and what a reader should find in it.

The lines are made from their parts by rules written down here, not by whered. Odd parts are frequent:
users with blanks, quotes in user agents, empty and escaped parts, IPv6 with ports, lists of addresses."""

import json
import random
from datetime import datetime, timedelta

FOUR = ["8.8.8.8", "193.0.0.1", "1.1.1.1", "198.51.100.7", "10.0.0.1"]
SIX = ["2001:4860:4860::8888", "2001:db8::1"]
AGENTS = ["curl/8", 'Mozilla/5.0 (X11; "quoted") Gecko', "-", "a [b] {c}", "Mozilla/5.0 (compatible; bot/1, +http://x/)"]
PATHS = ["/", "/a%20b?x=1&y=[2]", "/é", "/client: 9.9.9.9,x"]
USERS = ["-", "ann", "ann b", "a@b.c"]


class Chance:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.clock = datetime(2026, 11, 20, 12)

    def pick(self, choices):
        return self.random.choice(choices)

    def time(self):
        self.clock += timedelta(seconds=self.random.randrange(40))
        return self.clock

    def address(self):
        return self.pick(FOUR + SIX)

    def with_port(self):
        address = self.address()
        return (f"[{address}]" if ":" in address else address) + f":{self.random.randrange(1, 65536)}", address

    def number(self, most=10_000):
        return str(self.random.randrange(most))


def access(chance):
    address, user, agent = chance.address(), chance.pick(USERS), chance.pick(AGENTS).replace('"', '\\"')
    time = chance.time().strftime("%d/%b/%Y:%H:%M:%S +0000")
    request, status = f"GET {chance.pick(PATHS)} HTTP/1.1", chance.pick(["200", "404"])
    line = f'{address} - {user} [{time}] "{request}" {status} {chance.number()} "-" "{agent}"'
    return line, address, {"remote_user": user, "request": request, "http_user_agent": agent}


def combined(chance):
    return access(chance)


def syslog3164(chance):
    line, address, parts = access(chance)
    before = f"<134>{chance.clock.strftime('%b')} {chance.clock.day:2} {chance.clock.strftime('%H:%M:%S')} web-1 nginx: "
    return before + line, address, {**parts, "syslog_host": "web-1", "syslog_program": "nginx"}


def syslog5424(chance):
    line, address, parts = access(chance)
    element = chance.pick(["-", '[origin@1 ip="9.9.9.9"]', '[a b="x ] \\" y"][c]'])
    before = f"<134>1 {chance.clock.isoformat()}Z web-1 nginx 77 - {element} "
    return before + line, address, {**parts, "syslog_host": "web-1", "syslog_program": "nginx"}


def alb(chance):
    client, address = chance.with_port()
    agent, request = chance.pick(AGENTS), f"GET https://a.example:443{chance.pick(PATHS)} HTTP/2.0"
    target = chance.pick(["-", "10.0.0.9:80"])
    kind = chance.pick(["http", "https", "h2", "ws"])
    line = (
        f'{kind} {chance.time().isoformat()}.186641Z app/lb/50dc6c495c0c9188 {client} {target} 0.086 -1 0.037 {chance.pick(["200", "502"])} '
        f'{"-" if target == "-" else "200"} {chance.number()} {chance.number()} "{request}" "{agent}" - - arn:aws:x "Root=1-58337281" "-" "-" '
        f'0 {chance.clock.isoformat()}.0Z "forward" "-" "-" "{target}" "-" "-" "-"{chance.pick(["", " TID_1234"])}'
    )
    return line, address, {"type": kind, "client": client, "request": request, "user_agent": agent, "target": target}


def elb(chance):
    client, address = chance.with_port()
    request, agent = f"GET http://a.example:80{chance.pick(PATHS)} HTTP/1.1", chance.pick(AGENTS)
    line = f'{chance.time().isoformat()}.945958Z my-lb {client} 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "{request}" "{agent}" - -'
    return line, address, {"elb": "my-lb", "request": request, "user_agent": agent}


def s3(chance):
    # Amazon escapes no quotes of user agents.
    address, agent = chance.address(), chance.pick([*AGENTS, 'x "y" "z" w', '" "'])
    time = chance.time().strftime("%d/%b/%Y:%H:%M:%S +0000")
    operation = chance.pick(["REST.GET.OBJECT", "REST.PUT.PART", "BATCH.DELETE.OBJECT", "S3.EXPIRE.OBJECT"])
    request = '"GET /b/k?x HTTP/1.1"' if operation.startswith("REST") else "-"
    line = (
        f'79a59df900b949e5 bucket [{time}] {address} arn:aws:iam::1:user/a 3E57427F3EXAMPLE {operation} k {request} '
        f'{chance.pick(["200", "-"])} - {chance.number()} - 7 - "-" "{agent}" - s9lzHYrFp76ZVxRcpX9 SigV4 ECDHE-RSA AuthHeader b.s3.example TLSv1.2 - -'
    )
    return line, address, {"time": time, "operation": operation, "user_agent": agent, "tls_version": "TLSv1.2"}


def vpc(chance):
    if chance.random.random() < 0.1:
        line = f"2 123456789010 eni-1235b8ca123456789 - - - - - - - {chance.number()} {chance.number()} - NODATA"
        return line, None, {"log-status": "NODATA"}
    address, action = chance.address(), chance.pick(["ACCEPT", "REJECT"])
    target = "10.0.0.2" if "." in address else "2001:db8::2"
    line = f"2 123456789010 eni-1235b8ca123456789 {address} {target} {chance.number()} 22 6 20 4249 1418530010 1418530070 {action} OK"
    return line, address, {"srcaddr": address, "action": action, "dstport": "22"}


def iptables(chance):
    time, address, port = chance.time(), chance.address(), chance.random.randrange(1, 65536)
    before = f"{time.strftime('%b')} {time.day:2} {time.strftime('%H:%M:%S')} gate kernel: {chance.pick(['', '[12345.678901] '])}"
    prefix = chance.pick(["[UFW BLOCK] ", "DROP:", ""])
    mac = "MAC=52:54:00:12:34:56:52:54:00:65:43:21:08:00 "
    head = f"IN=eth0 OUT={chance.pick(['', 'eth1'])} {chance.pick([mac, ''])}SRC={address} "
    if ":" in address:
        line = f"{head}DST=2001:db8::9 LEN=60 TC=0 HOPLIMIT=64 FLOWLBL=0 "
    else:
        line = f"{head}DST=10.0.0.9 LEN=60 TOS=0x00 PREC=0x00 TTL=64 ID={chance.number()} DF "
    kind = chance.pick(["TCP", "UDP", "ICMP"])
    if kind == "TCP":
        line += f"PROTO=TCP SPT={port} DPT=22 WINDOW=64240 RES=0x00 {chance.pick(['SYN', 'ACK PSH'])} URGP=0 "
    elif kind == "UDP":
        line += f"PROTO=UDP SPT={port} DPT=53 LEN=40 "
    elif ":" in address:
        line += "PROTO=ICMPv6 TYPE=128 CODE=0 ID=7 SEQ=1 "
    else:
        line += "PROTO=ICMP TYPE=3 CODE=1 [SRC=10.0.0.9 DST=9.9.9.9 LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=UDP SPT=1 DPT=2 LEN=8 ] "
    kind = "ICMPv6" if kind == "ICMP" and ":" in address else kind
    return before + prefix + line, address, {"SRC": address, "PROTO": kind, "log_prefix": prefix or None, "syslog_host": "gate"}


def haproxy(chance):
    address = chance.pick(FOUR + SIX)
    client = f"{address}:{chance.random.randrange(1, 65536)}" if "." in address else f"[{address}]:80"
    time = chance.time()
    before = f"{time.strftime('%b')} {time.day:2} {time.strftime('%H:%M:%S')} lb haproxy[14389]: "
    accept = time.strftime("%d/%b/%Y:%H:%M:%S.655")
    if chance.random.random() < 0.3:
        line = f"{client} [{accept}] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0"
        return before + line, address, {"bytes_read": "212", "status": None, "syslog_program": "haproxy"}
    headers = chance.pick(["", "{a.example|Mozilla (x y)} {} ", "{b} "])
    request = chance.pick(["GET /index.html HTTP/1.1", "<BADREQ>", 'GET /a"b HTTP/1.0'])
    line = f'{client} [{accept}] http-in~ static/srv1 10/0/30/69/109 200 {chance.number()} - - ---- 1/1/1/1/0 0/0 {headers}"{request}"'
    return before + line, address, {"status": "200", "frontend": "http-in~", "request": request}


def squid(chance):
    address, url = chance.address(), f"http://a.example{chance.pick(PATHS)}".replace(" ", "%20")
    line = f"{1066036250 + chance.random.randrange(10**6)}.603 {chance.number():>6} {address} TCP_MISS/304 {chance.number()} GET {url} {chance.pick(['-', 'ann'])} DIRECT/198.51.100.1 -"
    return line, address, {"client": address, "url": url, "result": "TCP_MISS/304"}


def envoy(chance):
    address = chance.address()
    forwarded = chance.pick([address, f"{address}, 10.0.0.1", f"{address},10.0.0.1"])
    request = f"POST {chance.pick(PATHS)} HTTP/2"
    line = f'[{chance.time().isoformat()}.310Z] "{request}" 204 - 154 0 226 100 "{forwarded}" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"'
    return line, address, {"request": request, "x_forwarded_for": forwarded, "upstream_host": "tcp://10.0.2.1:80"}


def istio(chance):
    remote, address = chance.with_port()
    line = (
        f'[{chance.time().isoformat()}.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "curl/7" "84961386" "httpbin:8000" '
        f'"10.44.1.27:80" outbound|8000||httpbin 10.44.1.23:37652 10.0.45.184:8000 {remote} - default'
    )
    return line, address, {"downstream_remote_address": remote, "response_code": "418", "route_name": "default"}


def nginx_error(chance):
    time, address = chance.time(), chance.address()
    before = f"{time.strftime('%Y/%m/%d %H:%M:%S')} [{chance.pick(['error', 'warn', 'crit'])}] 123#45: *{chance.number()} "
    message = f'open() "/srv{chance.pick(PATHS)}" failed (2: No such file or directory)'
    behind = chance.pick([', server: a, request: "GET / HTTP/1.1", host: "a"', ""])
    number = before.split("*")[1].strip()
    return f"{before}{message}, client: {address}{behind}", address, {"message": f"*{number} {message}", "client": address}


def sshd(chance):
    time, address, port = chance.time(), chance.address(), chance.number()
    message = chance.pick([
        f"Failed password for invalid user 9.9.9.9 from {address} port {port} ssh2",
        f"Accepted publickey for ann from {address} port {port} ssh2: RSA SHA256:x",
        f"Invalid user from 1.2.3.4 from {address} port {port}",
        f"Connection closed by authenticating user root {address} port {port} [preauth]",
        f"Received disconnect from {address} port {port}:11: Bye Bye [preauth]",
        f"pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost={address}  user=root",
        f"Did not receive identification string from {address}",
    ])
    line = f"{time.strftime('%b')} {time.day:2} {time.strftime('%H:%M:%S')} LabSZ sshd[24200]: {message}"
    return line, address, {"message": message, "syslog_host": "LabSZ", "syslog_program": "sshd"}


def iis(chance):
    address = chance.address()
    server = "10.0.0.9" if "." in address else "2001:db8::9"
    line = f"{chance.time().strftime('%Y-%m-%d %H:%M:%S')} {server} GET /a x=1 443 - {address} Mozilla/5.0+(X11) 200 0 0 15"
    return line, address, {"c-ip": address, "s-ip": server, "sc-status": "200"}


iis.header = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2026-11-20 00:00:00\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status sc-substatus sc-win32-status time-taken\n"


def cloudfront(chance):
    address = chance.address()
    cookie = chance.pick(["-", "a=b; c=d"])
    line = "\t".join([chance.time().strftime("%Y-%m-%d\t%H:%M:%S"), "FRA2", chance.number(), address, "GET", "d1.cloudfront.net", "/a", "200", "-", "Mozilla/5.0%20(X11)", "-", cookie])
    return line, address, {"c-ip": address, "cs(Cookie)": cookie}


cloudfront.header = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie)\n"


def zeek(chance):
    address = chance.address()
    server = "10.0.0.1" if "." in address else "2001:db8::1"
    line = "\t".join([f"{chance.random.randrange(10**9)}.5", "CHhAvVGS1DHFjwGM9", address, chance.number(), server, "443", "tcp", "(empty)", "a b"])
    return line, address, {"id.orig_h": address, "note": "a b"}


zeek.header = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#open\t2026-11-20-12-00-00\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\ttags\tnote\n#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tset[string]\tstring\n"


def gcp(chance):
    address = chance.address()
    record = {"insertId": chance.number(), "httpRequest": {"remoteIp": address, "serverIp": "10.0.0.9", "status": 200}, "labels": {"a": "é"}}
    return json.dumps(record, ensure_ascii=chance.random.random() < 0.5), address, {"insertId": record["insertId"], "httpRequest": record["httpRequest"]}


def azure(chance):
    address = chance.address()
    record = {"time": chance.time().isoformat(), "callerIpAddress": address, "properties": {"status": 200}}
    return json.dumps(record), address, {"time": record["time"]}


FORMATS = [combined, syslog3164, syslog5424, alb, elb, s3, vpc, haproxy, squid, envoy, istio, nginx_error, iptables, sshd, iis, cloudfront, zeek, gcp, azure]


def sample(make, count=1000, seed=7):
    """The header, the lines, their addresses and some of their parts."""
    chance = Chance(seed)
    records = [make(chance) for _ in range(count)]
    return getattr(make, "header", ""), records
