//! Calls of Linux on open files that the standard library lacks, as safe functions.
//!
//! Not for: deciding when to use them (`directory.rs`). Each call may be interrupted by a signal
//! and is then made again. No state; calls may run at the same time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The most pieces that one call takes (`IOV_MAX` of Linux).
const PIECES_MAX: usize = 1024;

/// Allocates the blocks of the first `size_bytes` bytes.
pub(super) fn allocate(file: &File, size_bytes: u64) -> io::Result<()> {
    let length = offset(size_bytes)?;
    repeat(|| fallocate(file, length))
}

#[allow(unsafe_code, reason = "std has no call that allocates a file's blocks")]
fn fallocate(file: &File, length_bytes: libc::off_t) -> io::Result<()> {
    // SAFETY: the call takes numbers only; the descriptor is open because `file` is borrowed for
    // the whole call, and a wrong length is reported by the kernel, not undefined.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length_bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes all pieces one after another, as many with one call as the system takes.
pub(super) fn write_gathered_at(
    file: &File,
    offset_bytes: u64,
    pieces: &[&[u8]],
) -> io::Result<()> {
    let mut slices: Vec<io::IoSlice<'_>> = pieces
        .iter()
        .filter(|piece| !piece.is_empty())
        .map(|piece| io::IoSlice::new(piece))
        .collect();
    let mut rest = slices.as_mut_slice();
    let mut offset_bytes = offset_bytes;
    while !rest.is_empty() {
        let written =
            match pwritev(file, offset(offset_bytes)?, &rest[..rest.len().min(PIECES_MAX)]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
        offset_bytes += written as u64;
        io::IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

#[allow(unsafe_code, reason = "std has no stable call that writes several pieces at a place")]
fn pwritev(file: &File, offset: libc::off_t, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
    let count = libc::c_int::try_from(pieces.len()).map_err(io::Error::other)?;
    // SAFETY: an `IoSlice` has the layout of an `iovec` on Unix (its documentation promises it),
    // and each points to bytes that are borrowed for the whole call; the kernel only reads them.
    // The descriptor is open because `file` is borrowed.
    let written = unsafe { libc::pwritev(file.as_raw_fd(), pieces.as_ptr().cast(), count, offset) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Opens an open file once more, for writes past the system's cache.
pub(super) fn open_past_cache(file: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().write(true).custom_flags(libc::O_DIRECT).open(path)
}

/// Writes as many of the blocks as the system takes in this way; gives the bytes. A refusal costs a
/// call.
pub(super) fn write_blocks_at(file: &File, offset_bytes: u64, blocks: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < blocks.len() {
        match file.write_at(&blocks[written..], offset_bytes + written as u64) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The device has larger blocks, the system has written a part of one, or the file
            // system only said that it can.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)
                ) =>
            {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Begins to read what is not in memory of the range.
#[allow(unsafe_code, reason = "std has no call that lets the system read ahead")]
pub(super) fn will_read(file: &File, range: Range<u64>) {
    let length = range.end.saturating_sub(range.start);
    // The system would take zero for "up to the end of the file".
    if let (Ok(start), Ok(length @ 1..)) = (offset(range.start), offset(length)) {
        // SAFETY: the call takes numbers only; the descriptor is open because `file` is borrowed
        // for the whole call. A refusal changes nothing: the read that comes then waits for longer.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), start, length, libc::POSIX_FADV_WILLNEED) };
    }
}

/// Begins to write the range's dirty pages, or waits until they are written.
pub(super) fn write_back(file: &File, range: Range<u64>, wait: bool) -> io::Result<()> {
    let start = offset(range.start)?;
    let length = offset(range.end.saturating_sub(range.start))?;
    if length == 0 {
        // The system would take zero for "up to the end of the file".
        return Ok(());
    }
    let flags = if wait {
        libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER
    } else {
        libc::SYNC_FILE_RANGE_WRITE
    };
    match repeat(|| sync_file_range(file, start, length, flags)) {
        // File systems that cannot do it write when they like; the sync at the end is what counts.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ESPIPE | libc::ENOSYS)) =>
        {
            Ok(())
        }
        result => result,
    }
}

#[allow(unsafe_code, reason = "std has no call that writes back a part of a file")]
fn sync_file_range(
    file: &File,
    start: libc::off_t,
    length: libc::off_t,
    flags: libc::c_uint,
) -> io::Result<()> {
    // SAFETY: the call takes numbers only; the descriptor is open because `file` is borrowed for
    // the whole call.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), start, length, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn offset(bytes: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}

fn repeat(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
