//! Messages between two processes that may carry an open file (`SCM_RIGHTS`).
//!
//! Not for: what is said (`mod.rs`).
//!
//! ```text
//! SOCK_SEQPACKET:  [ text | at most one descriptor ][ text ][ text | descriptor ] ...  end
//! ```
//!
//! Invariants: one call is one whole message; a descriptor that is received is closed on `exec` and
//! has an owner at once, so that none leaks.
//! At the same time: each side has one thread that reads. Cost: one system call a message.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use socket2::Socket;

/// The longest text of a message: a listener, a number and a path.
const TEXT_BYTES_MAX: usize = 4096 + 64;

/// Room for one descriptor, aligned as its header wants it.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What `CMSG_SPACE` gives for one descriptor on every Linux with 64 bits.
const CONTROL_BYTES: usize = 24;

impl Control {
    fn new() -> Control {
        Control([0; CONTROL_BYTES])
    }
}

/// Sends one message.
///
/// # Errors
/// The system's, such as that nobody reads any more; a text that is too long.
#[allow(unsafe_code, reason = "sendmsg is a system call")]
pub(super) fn send(
    socket: &Socket,
    text: &str,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut control = Control::new();
    let mut vector = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let mut header = empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the control buffer is aligned and has room for the header of one message and one
        // descriptor, which is what CMSG_FIRSTHDR and CMSG_DATA point into.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) as _;
            ptr::write_unaligned(libc::CMSG_DATA(first).cast(), descriptor.as_raw_fd());
        }
    }
    // SAFETY: the header points to one vector over the text and to the control buffer, which all
    // live across the call; the call only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one message; `None` when the other side is gone.
///
/// # Errors
/// The system's, such as that the socket's time is over; what is no message of ours.
#[allow(unsafe_code, reason = "recvmsg is a system call")]
pub(super) fn receive(socket: &Socket) -> io::Result<Option<(String, Option<OwnedFd>)>> {
    let mut bytes = vec![0_u8; TEXT_BYTES_MAX];
    let mut control = Control::new();
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut header = empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header points to one vector over `bytes` and to the control buffer, with their
    // sizes; all live across the call, which writes no more than those.
    let count =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let Ok(count) = usize::try_from(count) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: recvmsg has set the header's control length to what it has written into the aligned
    // buffer; CMSG_FIRSTHDR gives null where that is less than one header. A message of one
    // descriptor has its bytes in the buffer, and nobody else owns a descriptor that just came.
    let descriptor = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        let is_one = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
            && (*first).cmsg_len as usize
                == libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) as usize;
        is_one.then(|| {
            let raw: RawFd = ptr::read_unaligned(libc::CMSG_DATA(first).cast());
            OwnedFd::from_raw_fd(raw)
        })
    };
    if count == 0 {
        return Ok(None);
    }
    bytes.truncate(count);
    let is_cut = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    match String::from_utf8(bytes) {
        Ok(text) if !is_cut => Ok(Some((text, descriptor))),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[allow(unsafe_code, reason = "libc's message header has private padding on some targets")]
fn empty_header() -> libc::msghdr {
    // SAFETY: a message header is integers and raw pointers only: all zero bits are valid.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn messages_stay_whole_and_a_file_stays_open_after_its_sender_has_closed_it() {
        let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        let (mut writer, reader) = UnixStream::pair().unwrap();
        send(&one, "a file", Some(reader.as_fd())).unwrap();
        send(&one, "a text", None).unwrap();
        drop((one, reader));
        let (text, descriptor) = receive(&other).unwrap().unwrap();
        assert_eq!(text, "a file");
        writer.write_all(b"x").unwrap();
        let mut byte = [0];
        UnixStream::from(descriptor.unwrap()).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        let (text, descriptor) = receive(&other).unwrap().unwrap();
        assert_eq!((text.as_str(), descriptor.is_none()), ("a text", true));
        assert!(receive(&other).unwrap().is_none());
    }

    #[test]
    fn texts_that_are_none_of_ours_are_errors() {
        let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        assert!(send(&one, "", None).is_err());
        assert!(send(&one, &"x".repeat(TEXT_BYTES_MAX + 1), None).is_err());
        one.send(&[0xff]).unwrap();
        assert!(receive(&other).is_err());
        one.send(&vec![b'x'; TEXT_BYTES_MAX + 1]).unwrap();
        assert!(receive(&other).is_err());
    }
}
