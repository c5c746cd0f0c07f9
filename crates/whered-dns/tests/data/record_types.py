"""Makes record_types.txt: the data of record types as text, and in wire form as other programs read it.

For: the test `record_types`, which reads each text and compares. dnspython gives the wire form of the types
that it knows; named-compilezone of BIND says whether it reads the text as that form, by writing a
text and its `\\#` form at one name, which then is one record. What neither knows has its form here,
taken from the RFC. Needs dnspython and bind9-utils; run as `python3 record_types.py > record_types.txt`.

A line: type, text, hexadecimal digits, who agrees (`dnspython`, `bind` or `rfc`), between tabs.
"""
import subprocess
import tempfile

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype

ORIGIN = dns.name.from_text("example.com")
KEY = "AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU="
DIGEST = "2BB183AF5F22588179A53B0A98631FAD1A292118"

# Type, text; a third member is the wire form of what neither program reads.
TEXTS = [
    ("A", "192.0.2.1"),
    ("NS", "ns"),
    ("NS", "ns.example.net."),
    ("MD", "a", "0161076578616D706C6503636F6D00"),
    ("MF", "a", "0161076578616D706C6503636F6D00"),
    ("CNAME", "@"),
    ("SOA", "ns hostmaster 4294967295 3600 900 604800 60"),
    ("SOA", "ns hostmaster 1 1h 15m 1w 1m"),
    ("MB", "a", "0161076578616D706C6503636F6D00"),
    ("MG", "a", "0161076578616D706C6503636F6D00"),
    ("MR", "a", "0161076578616D706C6503636F6D00"),
    ("PTR", "a"),
    ("WKS", "192.0.2.1 TCP smtp ftp telnet"),
    ("WKS", "192.0.2.1 17 53 65535"),
    ("WKS", "192.0.2.1 6"),
    ("HINFO", "PC Linux"),
    ("HINFO", '"a b" ""'),
    ("MINFO", "a b.example.net.", "0161076578616D706C6503636F6D000162076578616D706C65036E657400"),
    ("MX", "10 mail"),
    ("MX", "65535 ."),
    ("TXT", "a"),
    ("TXT", '"" "a b" c'),
    ("TXT", '"semi;colon" "quote\\"" \\255\\000'),
    ("TXT", '"grüß"'),
    ("TXT", "naïve"),
    ("RP", "a b"),
    ("AFSDB", "1 a"),
    ("X25", "311061700956"),
    ("ISDN", '"150862028003217" "004"'),
    ("ISDN", "150862028003217"),
    ("RT", "2 a"),
    ("NSAP", "0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00"),
    ("NSAP-PTR", "a"),
    ("SIG", "A 5 3 3600 20301231235959 20200101000000 12345 @ AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJz"),
    ("SIG", "TYPE65534 RSASHA256 3 1h 1924991999 1 0 @ AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJz"),
    ("KEY", f"256 3 RSASHA1 {KEY}"),
    ("KEY", "49152 3 5"),
    ("PX", "10 a b"),
    ("GPOS", "-32.6882 116.8652 10.0"),
    ("AAAA", "2001:db8::1"),
    ("AAAA", "::ffff:192.0.2.1"),
    ("LOC", "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"),
    ("LOC", "42 21 54 N 71 06 18 W -24m 30m"),
    ("LOC", "42 21 43.952 N 71 5 6.344 W -24m 1m 200m"),
    ("LOC", "52 N 4 E 0"),
    ("LOC", "52 14 N 00 08 E 10m 1.5m 0.05m 90000000m"),
    ("LOC", "90 0 0 S 180 W 42849672.95m"),
    ("LOC", "32 7 19 S 116 2 25 E 10"),
    ("EID", "e32c6f78163a9348", "E32C6F78163A9348"),
    ("NIMLOC", "32251a030067", "32251A030067"),
    ("SRV", "1 2 65535 a"),
    ("SRV", "0 0 0 ."),
    ("ATMA", "+358.400.1234567", "0133353834303031323334353637"),
    ("ATMA", "39246f000e7c9c03120001000100001234567890", "0039246F000E7C9C03120001000100001234567890"),
    ("NAPTR", '100 50 "s" "z3950+I2L+I2C" "" _z3950._tcp'),
    ("NAPTR", '100 10 u E2U+sip "!^.*$!sip:a@b.c!" .'),
    ("KX", "10 a"),
    ("CERT", f"PKIX 65535 RSASHA256 {KEY}"),
    ("CERT", "65534 1 254 AAAA"),
    ("CERT", "PGP 0 0 AAAA AAAA"),
    ("A6", "64 ::1:2:3:4 a", "4000010002000300040161076578616D706C6503636F6D00"),
    ("A6", "0 2001:db8::1", "0020010DB8000000000000000000000001"),
    ("A6", "128 a", "800161076578616D706C6503636F6D00"),
    ("A6", "61 0:0:0:7::1 a", "3D0700000000000000010161076578616D706C6503636F6D00"),
    ("DNAME", "a"),
    ("SINK", "1 0 0 AAAA", "010000000000"),
    ("APL", "1:192.168.32.0/21 !1:192.168.38.0/28"),
    ("APL", ""),
    ("APL", "2:2001:db8::/32 1:0.0.0.0/0 !2:::/0 1:224.0.0.0/4"),
    ("DS", f"60485 5 1 {DIGEST}"),
    ("DS", "60485 RSASHA1 SHA-1 2BB183AF5F22588179A5 3B0A98631FAD1A292118", "EC4505012BB183AF5F22588179A53B0A98631FAD1A292118"),
    ("SSHFP", "2 1 123456789abcdef67890123456789abcdef67890"),
    ("SSHFP", "1 1 1234 5678", "010112345678"),
    ("IPSECKEY", "10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 0 2 . AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 2 2 2001:db8:0:8002::2000:1 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 3 2 gateway AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("RRSIG", f"A ECDSAP256SHA256 3 86400 20301231235959 20000229000000 65535 @ {KEY}"),
    ("RRSIG", "TYPE1 13 3 86400 4102444800 0 1 . AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJz kKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLA"),
    ("NSEC", "b A MX RRSIG NSEC TYPE1234"),
    ("NSEC", "b CAA URI A"),
    ("NSEC", "b"),
    ("DNSKEY", f"257 3 RSASHA256 {KEY}"),
    ("DNSKEY", "256 3 15 AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTO"),
    ("DNSKEY", "0 3 PRIVATEDNS AAAA"),
    ("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="),
    ("NSEC3", "1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr MX DNSKEY NS SOA NSEC3PARAM RRSIG"),
    ("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR"),
    ("NSEC3PARAM", "1 0 12 aabbccdd"),
    ("NSEC3PARAM", "1 0 0 -"),
    ("TLSA", "3 1 1 0C72AC70B745AC19998811B131D662C9AC69DBDBE7CB23E5B514B56664C5D3D6"),
    ("SMIMEA", "3 0 2 0C72AC70 B745AC19 998811B1", "0300020C72AC70B745AC19998811B1"),
    ("HIP", "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc5EMzxTs9LBPCIkOFH8cIvM4p9+LrV4e19WzK00+CI6zBCQTdtWsuxKbWIy87UOoJTwkUs7lBu+Upr1gsNrut79ryra+bSRGQb1slImA8YVJyuIDsj7kwzG7jnERNqnWxZ48AWkskmdHaVDP4BcelrTI3rMXdXF5D rvs rvs.example.net."),
    ("HIP", "2 200100107B1A74DF365639CC39F1D578 AwEAAQ=="),
    ("NINFO", 'a "b c"'),
    ("RKEY", "0 3 8 AwEAAQ==", "0000030803010001"),
    ("TALINK", "a b", "0161076578616D706C6503636F6D000162076578616D706C6503636F6D00"),
    ("CDS", f"60485 5 1 {DIGEST}"),
    ("CDS", "0 0 0 00"),
    ("CDNSKEY", f"257 3 8 {KEY}"),
    ("CDNSKEY", "0 3 0 AA=="),
    ("OPENPGPKEY", f"{KEY}"),
    ("CSYNC", "66 3 A NS AAAA"),
    ("CSYNC", "0 0"),
    ("ZONEMD", "2018031500 1 1 abababababababababababababababababababababababababababababababababababababababababababababababab"),
    ("SPF", '"v=spf1 -all"'),
    ("NID", "10 14:4fff:ff20:ee64", "000A00144FFFFF20EE64"),
    ("L32", "10 10.1.2.0"),
    ("L64", "10 2001:db8:1140:1000", "000A20010DB811401000"),
    ("LP", "10 l64"),
    ("EUI48", "00-00-5e-00-53-2A"),
    ("EUI64", "00-00-5e-ef-10-00-00-2a"),
    ("URI", '10 1 "ftp://ftp1.example.com/public"'),
    ("URI", '0 0 "a\\"b"'),
    ("CAA", '0 issue "ca.example.net; policy=ev"'),
    ("CAA", "128 tbs unknown"),
    ("CAA", '0 issuewild ";"'),
    ("AVC", '"app-name:WOLFGANG|app-class:OAM"'),
    ("DOA", '0 1 2 "" AAAA', "00000000000000010200000000"),
    ("DOA", '1234567890 1234567890 1 "image/gif" -', "499602D2499602D20109696D6167652F676966"),
    ("AMTRELAY", "10 0 0 ."),
    ("AMTRELAY", "10 0 1 203.0.113.15"),
    ("AMTRELAY", "10 1 2 2001:db8::15"),
    ("AMTRELAY", "128 1 3 amtrelays"),
    ("RESINFO", "qnamemin exterr=15,16,17 infourl=https://a.example/"),
    ("WALLET", '"ETH" "0x1234"'),
    ("CLA", '"v=1"', "03763D31"),
    ("DSYNC", "CDS NOTIFY 5300 scanner", "003B0114B4077363616E6E6572076578616D706C6503636F6D00"),
    ("DSYNC", "CSYNC 1 5300 .", "003E0114B400"),
    ("HHIT", "AAAA", "000000"),
    ("BRID", "AAAA BBBB", "000000041041"),
    ("TA", f"60485 5 1 {DIGEST}", "EC4505012BB183AF5F22588179A53B0A98631FAD1A292118"),
    ("DLV", f"60485 RSASHA1 1 {DIGEST}"),
    ("SVCB", "0 foo.example.com."),
    ("SVCB", "1 ."),
    ("SVCB", "16 foo.example.com. port=53"),
    ("SVCB", "1 foo.example.com. key667=hello"),
    ("SVCB", '1 foo.example.com. key667="hello\\210qoo"'),
    ("SVCB", '1 foo.example.com. ipv6hint="2001:db8::1,2001:db8::53:1"'),
    ("SVCB", "16 foo.example.org. alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1"),
    ("SVCB", '16 foo.example.org. alpn="f\\\\\\\\oo\\\\,bar,h2"'),
    ("SVCB", "16 foo.example.org. alpn=f\\\\\\092oo\\092,bar,h2"),
    ("SVCB", '1 . key65000="a b" key12345 key9999=', "000100270F000030390000FDE80003612062"),
    ("SVCB", "1 doh alpn=h2 dohpath=/dns-query{?dns}"),
    ("HTTPS", "1 . alpn=h3,h2 no-default-alpn port=8443 ipv4hint=192.0.2.1,192.0.2.2 ech=AAAA ipv6hint=::1", "00010000010006026833026832000200000003000220FB00040008C0000201C0000202000500030000000006001000000000000000000000000000000001"),
    ("HTTPS", "1 svc key1=\\002h2"),
    ("TYPE65280", "\\# 4 0a000001"),
    ("TYPE65535", "\\# 0"),
    ("TYPE1", "\\# 4 C0 00 02 01"),
    ("TYPE731", "\\# 6 abcd ( ef 01 23 45 )"),
    ("TXT", '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"'),
    ("TYPE29", "52 N 4 E 0"),
]


# Types whose names dnspython does not know.
NUMBERS = {"EID": 31, "NIMLOC": 32, "ATMA": 34, "A6": 38, "SINK": 40, "NINFO": 56, "RKEY": 57, "TALINK": 58, "DOA": 259,
           "CLA": 263, "TA": 32768}


def by_dnspython(kind, text):
    try:
        rdata = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(kind), text, origin=ORIGIN, relativize=False)
    except Exception:
        return None
    if isinstance(rdata, dns.rdata.GenericRdata) and "\\#" not in text:
        return None
    return rdata.to_wire().hex().upper()


def by_bind(kind, text, wire):
    number = NUMBERS.get(kind) or dns.rdatatype.from_text(kind)
    zone = f"""$ORIGIN example.com.
$TTL 60
@ SOA ns hostmaster 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
x {kind} {text}
x TYPE{int(number)} \\# {len(wire) // 2} {wire}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".zone", encoding="utf-8") as file:
        file.write(zone)
        file.flush()
        done = subprocess.run(["named-compilezone", "-i", "none", "-k", "ignore", "-n", "ignore", "-r", "ignore",
                               "-o", "-", "example.com", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return False
    found = [line for line in done.stdout.splitlines() if line.startswith("x.example.com.")]
    return len(found) == 1


def main():
    for kind, text, *by_hand in TEXTS:
        agree = []
        wire = by_dnspython(kind, text)
        if wire is not None:
            agree.append("dnspython")
        else:
            wire, = by_hand
        if by_bind(kind, text, wire):
            agree.append("bind")
        print(kind, text, wire, ",".join(agree) or "rfc", sep="\t")


main()
