//! What a disk does to the journal and the spools: said once when it begins and once when it ends.
//!
//! For: the log, and who asks whether writes and uploads are taken. Not for: finding it out, which
//! the journals do (`whered-store`). Cost: one atomic load a journal, a short lock beside it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use whered_engine::Engine;

/// Why writes are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The disk has no room.
    Full,
    /// A write or an fdatasync has failed.
    Failed,
}

impl State {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Full => "full",
            State::Failed => "failed",
        }
    }
}

/// Why one journal takes no writes, or one feed no uploads.
pub(crate) struct Refusal {
    /// The feed; `None` for the journal.
    feed: Option<String>,
    pub(crate) state: State,
    reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { feed, state, reason } = self;
        let what = match state {
            State::Full => "the disk has no room for",
            State::Failed => "the disk has failed for",
        };
        match feed {
            None => write!(f, "{what} the journal, writes are refused: {reason}"),
            Some(feed) => {
                write!(f, "{what} the spool of feed '{feed}', uploads are refused: {reason}")
            }
        }
    }
}

/// What is refused now, the journal first.
pub(crate) fn refusals(engine: &Engine) -> impl Iterator<Item = Refusal> {
    let refusal = |feed: Option<&str>, failed: Option<String>, full: Option<String>| {
        let failed = failed.map(|reason| (State::Failed, reason));
        let (state, reason) = failed.or_else(|| full.map(|reason| (State::Full, reason)))?;
        Some(Refusal { feed: feed.map(str::to_owned), state, reason })
    };
    let journal = refusal(None, engine.journal_poisoned(), engine.journal_full());
    let feeds = engine.feeds().iter().filter_map(move |feed| {
        // One that was found damaged at the start is out of service alone: all else is ready.
        let failed = feed.reason().filter(|_| feed.out_of_service().is_none());
        refusal(Some(feed.name()), failed, feed.spool_full())
    });
    journal.into_iter().chain(feeds)
}

/// What was said already.
#[derive(Default)]
pub(crate) struct DiskWatch {
    said: BTreeMap<Option<String>, State>,
}

impl DiskWatch {
    /// Says what has begun and what has ended since the last look.
    pub(crate) fn look(&mut self, engine: &Engine) {
        let mut now = BTreeMap::new();
        for refusal in refusals(engine) {
            if self.said.get(&refusal.feed) != Some(&refusal.state) {
                tracing::error!("{refusal}");
            }
            now.insert(refusal.feed, refusal.state);
        }
        for feed in self.said.keys().filter(|feed| !now.contains_key(*feed)) {
            match feed {
                None => tracing::info!("the disk has room for the journal again; writes are taken"),
                Some(feed) => tracing::info!(
                    "the disk has room for the spool of feed '{feed}' again; uploads are taken"
                ),
            }
        }
        self.said = now;
    }
}

/// Size and free room in bytes of the disk that a directory is on.
#[allow(unsafe_code, reason = "statvfs is a system call")]
#[allow(clippy::unnecessary_cast, reason = "these are 32 bits on some systems")]
pub(crate) fn disk_space(directory: &Path) -> Option<(u64, u64)> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and there is memory for the answer.
    let failed = unsafe { libc::statvfs(path.as_ptr(), space.as_mut_ptr()) } != 0;
    if failed {
        return None;
    }
    // SAFETY: the call has succeeded, so the system has filled it in.
    let space = unsafe { space.assume_init() };
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize as u64);
    Some((bytes(space.f_blocks as u64), bytes(space.f_bavail as u64)))
}
