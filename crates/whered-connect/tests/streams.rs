//! Uploads out of a stream of a real Redis that is killed and started again, into a spool that
//! loses what was not durable. Without redis-server skipped, unless `WHERED_REQUIRE` names `peers`.

mod support;

use std::sync::Mutex;
use std::time::Duration;

use redis::{Connection, ConnectionLike};
use support::{Peer, wait_for};
use whered_connect::Stop;
use whered_connect::streams::{
    Consumer, Intake, RedisStream, Refusal, StreamMemory, StreamState, StreamStatus,
};

/// A spool whose crash takes what was not durable, and whose fdatasync is what `wait` is.
#[derive(Default)]
struct Spool(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    uploads: Vec<(Vec<u8>, Vec<u8>)>,
    durable: usize,
    /// Groups until the next crash of our side.
    groups_to_crash: Option<u32>,
    is_full: bool,
}

impl Spool {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().expect("nobody panics with it")
    }

    fn texts(&self) -> Vec<String> {
        let inside = self.inside();
        let uploads = inside.uploads[..inside.durable].iter();
        uploads.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }
}

impl Intake for Spool {
    type Ticket = usize;

    fn position(&self, _source: &str) -> Option<Vec<u8>> {
        let mut inside = self.inside();
        let durable = inside.durable;
        inside.uploads.truncate(durable);
        inside.uploads.last().map(|(position, _)| position.clone())
    }

    fn push(&self, _source: &str, position: &[u8], bytes: &[u8]) -> Result<usize, Refusal> {
        let mut inside = self.inside();
        if inside.is_full {
            return Err(Refusal::Full(Duration::from_millis(5)));
        }
        if bytes == b"no upload" {
            return Err(Refusal::Never("it is no upload".to_owned()));
        }
        inside.uploads.push((position.to_vec(), bytes.to_vec()));
        Ok(inside.uploads.len())
    }

    fn wait(&self, ticket: usize) -> Result<(), String> {
        let mut inside = self.inside();
        if let Some(groups) = &mut inside.groups_to_crash {
            if *groups == 0 {
                // Between push and acknowledgement.
                inside.groups_to_crash = Some(3);
                return Err("crashed".to_owned());
            }
            *groups -= 1;
        }
        inside.durable = ticket;
        Ok(())
    }
}

fn url(redis: &Peer) -> String {
    format!("redis://127.0.0.1:{}", redis.port)
}

fn connect(redis: &Peer) -> Connection {
    wait_for("Redis", || {
        let mut connection = redis::Client::open(url(redis)).ok()?.get_connection().ok()?;
        connection.check_connection().then_some(connection)
    })
}

/// Adds an entry until it is acknowledged. Ids are ours, so that one that was added although its
/// acknowledgement was lost is not added twice.
fn add(redis: &Peer, connection: &mut Connection, number: u64, field: &str, text: &str) {
    wait_for("XADD", || {
        let mut command = redis::cmd("XADD");
        command.arg("uploads").arg(format!("{}-1", number + 1)).arg("other").arg("x");
        match command.arg(field).arg(text).query::<String>(connection) {
            Ok(_) => Some(()),
            Err(error) if error.to_string().contains("equal or smaller") => Some(()),
            Err(_) => {
                *connection = connect(redis);
                None
            }
        }
    });
}

/// Runs a consumer beside `work`; ends it afterwards. Gives its last word.
fn beside(
    redis: &Peer,
    spool: &Spool,
    from_start: bool,
    joins: bool,
    work: impl FnOnce(&dyn Fn() -> StreamStatus),
) -> StreamStatus {
    remembering(redis, spool, from_start, joins, StreamMemory::default(), work)
}

/// The same, with a memory.
fn remembering(
    redis: &Peer,
    spool: &Spool,
    from_start: bool,
    joins: bool,
    memory: StreamMemory,
    work: impl FnOnce(&dyn Fn() -> StreamStatus),
) -> StreamStatus {
    let (stop, told) = (Stop::default(), Mutex::new(StreamStatus::default()));
    std::thread::scope(|scope| {
        let source = RedisStream::new("up", &url(redis), "uploads", "payload", from_start);
        let source = source.expect("is a URL");
        scope.spawn(|| {
            let mut report = |status: &StreamStatus| {
                *told.lock().expect("nobody panics with it") = status.clone();
            };
            Consumer::new(source, spool, joins, &stop, &mut report).with_memory(memory).run();
        });
        let _stops = StopOnDrop(&stop);
        work(&|| told.lock().expect("nobody panics with it").clone());
        stop.stop();
    });
    told.into_inner().expect("nobody panics with it")
}

/// Ends the consumer when a check beside it fails, so that the test ends as well.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn texts(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("upload {number}")).collect()
}

#[test]
fn every_entry_is_applied_once_over_crashes_of_either_side() {
    let Some(mut redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    let spool = Spool::default();
    spool.inside().groups_to_crash = Some(2);
    let mut added = 0;
    for round in 0..4_u64 {
        for _ in 0..50 {
            add(&redis, &mut connection, added, "payload", &format!("upload {added}"));
            added += 1;
        }
        let (url_text, spool) = (url(&redis), &spool);
        let end = Stop::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // It knows the port only; the server behind it goes and comes.
                let source = RedisStream::new("up", &url_text, "uploads", "payload", true);
                let source = source.expect("is a URL");
                Consumer::new(source, spool, false, &end, &mut |_: &StreamStatus| ()).run();
            });
            let _stops = StopOnDrop(&end);
            for step in 0..100 {
                if step == 30 + round {
                    redis.kill();
                    redis.start();
                    connection = connect(&redis);
                }
                add(&redis, &mut connection, added, "payload", &format!("upload {added}"));
                added += 1;
            }
            if round % 2 == 0 {
                wait_for("all uploads", || (spool.texts().len() as u64 == added).then_some(()));
            }
            end.stop();
        });
        spool.position("up");
    }
    beside(&redis, &spool, true, false, |_| {
        wait_for("all uploads", || (spool.texts().len() as u64 == added).then_some(()));
    });
    assert_eq!(spool.texts(), texts(0..added));
}

#[test]
fn lines_are_joined_and_odd_entries_passed_over_and_a_full_spool_waited_for() {
    let Some(redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    let spool = Spool::default();
    for number in 0..40 {
        let field = if number == 20 { "elsewhere" } else { "payload" };
        add(&redis, &mut connection, number, field, &format!("upload {number}"));
    }
    spool.inside().is_full = true;
    let status = beside(&redis, &spool, true, true, |status| {
        wait_for("a full spool", || (status().state == StreamState::Held).then_some(()));
        spool.inside().is_full = false;
        wait_for("all", || (status().entries == 40).then_some(()));
        add(&redis, &mut connection, 40, "payload", "no upload");
        wait_for("one more", || (status().entries == 41).then_some(()));
    });
    let joined = spool.texts().concat();
    let lines: Vec<&str> = joined.lines().collect();
    let mut wanted = texts(0..40);
    wanted.remove(20);
    assert_eq!(lines, wanted);
    assert!(status.uploads < 39, "{status:?}");
    assert_eq!(status.passed_over, 2);
    let why = "stream uploads, entry 41-1: it is no upload";
    assert_eq!(status.passed_over_why.as_deref(), Some(why));
}

#[test]
fn entries_that_were_trimmed_before_they_were_read_are_told_of() {
    let Some(redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    let spool = Spool::default();
    let take_all = |count: u64| {
        beside(&redis, &spool, true, false, |status| {
            wait_for("entries", || (status().entries >= count).then_some(()));
        })
    };
    for number in 0..10 {
        add(&redis, &mut connection, number, "payload", &format!("upload {number}"));
    }
    assert_eq!(take_all(10).gap, None);
    // Trimmed after it was read: nothing is missing.
    let trim = |connection: &mut Connection, keep: u64| {
        let mut command = redis::cmd("XTRIM");
        command.arg("uploads").arg("MAXLEN").arg(keep).query::<u64>(connection).expect("trims");
    };
    trim(&mut connection, 0);
    for number in 10..15 {
        add(&redis, &mut connection, number, "payload", &format!("upload {number}"));
    }
    assert_eq!(take_all(5).gap, None);
    // Twenty more, of which eight are gone when we come again.
    for number in 15..35 {
        add(&redis, &mut connection, number, "payload", &format!("upload {number}"));
    }
    trim(&mut connection, 12);
    let status = take_all(12);
    assert_eq!(status.missing, 8);
    let gap = status.gap.expect("something is missing");
    assert!(gap.contains("up to 8 entries after 15-1 were trimmed"), "{gap}");
    let mut wanted = texts(0..15);
    wanted.extend(texts(23..35));
    assert_eq!(spool.texts(), wanted);
    // The stream is made anew, and counts from the beginning: nothing is applied again.
    redis::cmd("DEL").arg("uploads").query::<u64>(&mut connection).expect("deletes");
    let status = beside(&redis, &spool, true, false, |status| {
        wait_for("a word", || status().gap.is_some().then_some(()));
        add(&redis, &mut connection, 3, "payload", "upload 3");
        add(&redis, &mut connection, 99, "payload", "upload 99");
        wait_for("the later entry", || (status().entries == 1).then_some(()));
    });
    assert!(status.gap.expect("it is gone").contains("waiting for later ids"));
    assert_eq!(spool.texts().last().map(String::as_str), Some("upload 99"));
}

/// Adds so many entries and trims all but the newest of them, at one moment.
fn add_and_trim(connection: &mut Connection, numbers: std::ops::Range<u64>, keep: u64) {
    let mut together = redis::pipe();
    together.atomic();
    for number in numbers {
        let command = together.cmd("XADD").arg("uploads").arg(format!("{}-1", number + 1));
        command.arg("payload").arg(format!("upload {number}")).ignore();
    }
    together.cmd("XTRIM").arg("uploads").arg("MAXLEN").arg(keep).ignore();
    together.query::<()>(connection).expect("Redis is there");
}

#[test]
fn entries_that_were_trimmed_before_the_first_was_read_are_told_of() {
    let Some(redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    // It waits for a stream that is not there yet, and comes too late for its first entries.
    let spool = Spool::default();
    let status = beside(&redis, &spool, true, false, |status| {
        wait_for("the server", || (status().state == StreamState::Connected).then_some(()));
        add_and_trim(&mut connection, 0..60, 20);
        wait_for("what is left", || (status().entries == 20).then_some(()));
    });
    assert_eq!(status.missing, 40);
    let gap = status.gap.expect("something is missing");
    assert!(gap.contains("up to 40 entries after 0-0 were trimmed"), "{gap}");
    assert_eq!(spool.texts(), texts(40..60));
}

#[test]
fn where_a_stream_began_is_remembered_although_nothing_came() {
    let Some(redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    for from_start in [true, false] {
        redis::cmd("DEL").arg("uploads").query::<u64>(&mut connection).expect("deletes");
        let folder = std::env::temp_dir().join(format!("whered-stream-{}", support::free_port()));
        let spool = Spool::default();
        let run = |work: &mut dyn FnMut(&dyn Fn() -> StreamStatus)| {
            let memory = StreamMemory::open(&folder, "a/b", "up").expect("it is writable");
            remembering(&redis, &spool, from_start, false, memory, |status| work(status))
        };
        if !from_start {
            // These were there before it came, and are not wanted.
            add_and_trim(&mut connection, 0..5, 5);
        }
        run(&mut |status| {
            wait_for("the server", || (status().state == StreamState::Connected).then_some(()));
        });
        add_and_trim(&mut connection, 10..50, 30);
        let status = run(&mut |status| {
            wait_for("what is left", || (status().entries == 30).then_some(()));
        });
        assert_eq!(status.missing, 10, "{status:?}");
        assert_eq!(spool.texts(), texts(20..50));
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}

#[test]
fn a_stream_that_was_made_anew_is_told_of() {
    let Some(redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    let spool = Spool::default();
    add_and_trim(&mut connection, 0..50, 50);
    beside(&redis, &spool, true, false, |status| {
        wait_for("entries", || (status().entries == 50).then_some(()));
    });
    // While nobody reads: another stream of the name, with later ids, of which some are gone, too.
    redis::cmd("DEL").arg("uploads").query::<u64>(&mut connection).expect("deletes");
    add_and_trim(&mut connection, 100..110, 7);
    let status = beside(&redis, &spool, true, false, |status| {
        wait_for("entries", || (status().entries == 7).then_some(()));
    });
    assert_eq!(status.missing, 3);
    let gap = status.gap.expect("something is missing");
    assert!(gap.contains("made anew after 50-1 was read"), "{gap}");
}

#[test]
fn a_stream_that_is_read_from_its_end_begins_with_what_comes_then() {
    let Some(redis) = support::redis() else { return };
    let mut connection = connect(&redis);
    let spool = Spool::default();
    add(&redis, &mut connection, 0, "payload", "upload 0");
    beside(&redis, &spool, false, false, |status| {
        wait_for("the stream", || (status().state == StreamState::Connected).then_some(()));
        add(&redis, &mut connection, 1, "payload", "upload 1");
        wait_for("the entry", || (status().entries == 1).then_some(()));
    });
    assert_eq!(spool.texts(), ["upload 1"]);
}
