//! Tests of dnstap with a listener of their own: what it gets, and what holds nobody up.

use std::os::unix::net::UnixListener;
use std::sync::mpsc;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A listener's part of the conversation; gives the stream.
fn accept(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().expect("somebody comes");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    expect(&mut stream, ControlType::Ready).expect("READY");
    stream.write_all(&control(ControlType::Accept, true)).expect("it is open");
    expect(&mut stream, ControlType::Start).expect("START");
    stream
}

fn frame(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a frame");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).expect("the whole frame");
    frame
}

fn start(path: &Path, messages: TappedMessages) -> (Tap, JoinHandle<()>, Arc<DnstapCounts>) {
    let counts = Arc::new(DnstapCounts::default());
    let options = DnstapOptions { socket: path.to_owned(), messages };
    let (tap, thread) = Tap::start(&options, ("id", ""), Arc::clone(&counts)).expect("a thread");
    (tap, thread, counts)
}

fn put(tap: &Tap, size: usize) {
    let mut batch = tap.batch(Transport::Udp, SystemTime::now());
    batch.add("192.0.2.1:53".parse().expect("an address"), b"question", &vec![b'a'; size]);
}

fn until(mut holds: impl FnMut() -> bool) {
    let (_sender, never) = mpsc::channel::<()>();
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not in time");
        let _ = never.recv_timeout(Duration::from_millis(10));
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[test]
fn a_listener_gets_what_it_is_to_get_and_an_end() {
    let folder = Folder::new("dnstap-messages");
    for (messages, expected) in [
        (TappedMessages::Both, &[1, 2][..]),
        (TappedMessages::Queries, &[1]),
        (TappedMessages::Responses, &[2]),
    ] {
        let path = folder.0.join(format!("{messages:?}"));
        let listener = UnixListener::bind(&path).expect("a socket");
        let (tap, thread, counts) = start(&path, messages);
        let mut stream = accept(&listener);
        put(&tap, 6);
        for kind in expected {
            // identity, the field of the message, its length, its first field
            let frame = frame(&mut stream);
            assert_eq!((&frame[..5], frame[7]), (&b"\x0a\x02id\x72"[..], *kind));
        }
        drop(tap);
        expect(&mut stream, ControlType::Stop).expect("STOP");
        stream.write_all(&control(ControlType::Finish, false)).expect("it is open");
        thread.join().expect("the writer ends");
        assert_eq!((read(&counts.sent), read(&counts.dropped)), (expected.len() as u64, 0));
    }
}

#[test]
fn a_listener_may_come_late_go_and_come_back() {
    let folder = Folder::new("dnstap-comes");
    let path = folder.0.join("socket");
    let (tap, thread, counts) = start(&path, TappedMessages::Queries);
    put(&tap, 1);
    until(|| read(&counts.dropped) == 1);
    for _ in 0..2 {
        let listener = UnixListener::bind(&path).expect("a socket");
        let mut stream = accept(&listener);
        put(&tap, 1);
        frame(&mut stream);
        drop((stream, listener));
        std::fs::remove_file(&path).expect("it is there");
        let dropped = read(&counts.dropped);
        until(|| {
            put(&tap, 1);
            read(&counts.dropped) > dropped
        });
    }
    drop(tap);
    thread.join().expect("the writer ends");
}

#[test]
fn a_listener_that_takes_nothing_or_talks_otherwise_holds_nobody_up() {
    let folder = Folder::new("dnstap-slow");
    let path = folder.0.join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let (tap, thread, counts) = start(&path, TappedMessages::Responses);
    // One that answers something else is left, and looked for again.
    let (mut other, _) = listener.accept().expect("somebody comes");
    other.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("it is open");
    let stream = accept(&listener);
    let (mut most, begun, mut puts) = (Duration::ZERO, Instant::now(), 0);
    while read(&counts.dropped) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is dropped");
        let begun = Instant::now();
        put(&tap, 4000);
        most = most.max(begun.elapsed());
        puts += 1;
    }
    assert!(most < Duration::from_secs(1), "one took {most:?}");
    let queued = counts.queued.load(Ordering::Relaxed);
    assert!(queued <= QUEUE_BYTES_MAX, "{queued} bytes after {puts}");
    // One that takes a little now and then does not hold up the end either.
    drop((tap, listener));
    let begun = Instant::now();
    let reader = std::thread::spawn(move || {
        let (_sender, never) = mpsc::channel::<()>();
        let mut stream = stream;
        while stream.read(&mut [0; 512]).is_ok_and(|size| size > 0) {
            let _ = never.recv_timeout(Duration::from_millis(20));
        }
    });
    thread.join().expect("the writer ends");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(reader);
}
