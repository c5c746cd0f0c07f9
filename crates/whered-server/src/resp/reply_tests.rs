//! Every reply form, in both protocol versions.

use super::*;

fn written(protocol: Protocol, write: impl FnOnce(&mut Reply)) -> String {
    let mut reply = Reply::new();
    reply.protocol = protocol;
    write(&mut reply);
    reply.out.escape_ascii().to_string()
}

#[test]
fn each_form_has_its_two_spellings() {
    type Write = fn(&mut Reply);
    let cases: [(Write, &str, &str); 12] = [
        (|r| r.ok(), "+OK\\r\\n", "+OK\\r\\n"),
        (|r| r.integer(-120), ":-120\\r\\n", ":-120\\r\\n"),
        (|r| r.integer(i64::MIN), ":-9223372036854775808\\r\\n", ":-9223372036854775808\\r\\n"),
        (|r| r.count(0), ":0\\r\\n", ":0\\r\\n"),
        (|r| r.bulk(b"a\r\nb"), "$4\\r\\na\\r\\nb\\r\\n", "$4\\r\\na\\r\\nb\\r\\n"),
        (|r| r.null(), "$-1\\r\\n", "_\\r\\n"),
        (|r| r.null_array(), "*-1\\r\\n", "_\\r\\n"),
        (|r| r.map(2), "*4\\r\\n", "%2\\r\\n"),
        (|r| r.set(2), "*2\\r\\n", "~2\\r\\n"),
        (|r| r.verbatim(b"hi"), "$2\\r\\nhi\\r\\n", "=6\\r\\ntxt:hi\\r\\n"),
        (
            |r| r.score(3_479_099_956_230_698),
            "$16\\r\\n3479099956230698\\r\\n",
            ",3479099956230698\\r\\n",
        ),
        (
            |r| r.distance(166_274.151_562),
            "$11\\r\\n166274.1516\\r\\n",
            "$11\\r\\n166274.1516\\r\\n",
        ),
    ];
    for (write, two, three) in cases {
        assert_eq!(written(Protocol::Resp2, write), two);
        assert_eq!(written(Protocol::Resp3, write), three);
    }
}

#[test]
fn distances_are_rounded_after_the_multiplication_as_redis_does() {
    let cases = [
        (0.0, "0.0000"),
        (0.000_05, "0.0000"),
        (0.000_150_1, "0.0002"),
        (20_015_086.796_02, "20015086.7960"),
        // Found by the differential test (seed 1059): the nearest decimal would end in 1.
        (8_025_808.197_149_999, "8025808.1972"),
    ];
    for (value, text) in cases {
        let expected = format!("${}\\r\\n{text}\\r\\n", text.len());
        assert_eq!(written(Protocol::Resp2, |reply| reply.distance(value)), expected);
    }
}

#[test]
fn an_error_stays_on_one_line() {
    let failure = Failure::made(&b"\r\nERR a\r\nb\0c"[..]);
    assert_eq!(written(Protocol::Resp2, |reply| reply.error(&failure)), "-ERR a  b\\r\\n");
}

#[test]
fn a_refused_write_says_that_reads_go_on() {
    let failure = Failure::from(WriteError::Full("no space".into()));
    let text = written(Protocol::Resp2, |reply| reply.error(&failure));
    assert_eq!(
        text,
        "-MISCONF the journal cannot be extended: no space; writes are refused, reads go on\\r\\n"
    );
}

/// Ten bytes at most at a time, however many are wanted.
struct Countdown(usize);

impl Rest for Countdown {
    fn append(&mut self, out: &mut Vec<u8>, wanted_bytes: usize) {
        let count = self.0.min(wanted_bytes).min(10);
        out.extend(std::iter::repeat_n(b'x', count));
        self.0 -= count;
    }

    fn has_pieces(&self) -> bool {
        false
    }

    fn pieces<'a>(&'a self, _: &mut Vec<IoSlice<'a>>, _: usize, _: usize) {}

    fn sent(&mut self, bytes: usize) {
        assert_eq!(bytes, 0, "there were no pieces");
    }

    fn is_finished(&self) -> bool {
        self.0 == 0
    }

    fn size_bytes(&self) -> usize {
        0
    }
}

#[test]
fn a_long_reply_is_appended_in_parts_until_it_is_finished() {
    let mut reply = Reply::new();
    reply.rest = Some(Box::new(Countdown(45)));
    reply.refill(25);
    assert_eq!(reply.out.len(), 25);
    assert!(reply.rest.is_some());
    reply.refill(100);
    assert_eq!(reply.out.len(), 45);
    assert!(reply.rest.is_none());
}
