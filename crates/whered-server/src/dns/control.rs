//! The control message that says which of our addresses a datagram was sent to, so that the
//! answer leaves from the same one (RFC 3542 section 6; `ip(7)` `IP_PKTINFO`).
//!
//! A socket on one address needs none of this; a socket on the wildcard address asks for it with
//! `listen::bind_udp`, and each received control is turned into the one for the answer.
//!
//! ```text
//! Control (64 bytes, aligned as cmsghdr): [ cmsghdr | in_pktinfo or in6_pktinfo | spare ]
//! ```

use std::mem;
use std::net::Ipv6Addr;
use std::os::fd::RawFd;

/// Room for one packet information message of either family.
pub(super) const SIZE_BYTES: usize = 64;

/// The control buffer of one datagram.
#[derive(Clone)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; SIZE_BYTES],
    /// How many bytes the kernel has written.
    size_bytes: usize,
}

impl Control {
    pub(super) fn new() -> Control {
        Control { bytes: [0; SIZE_BYTES], size_bytes: 0 }
    }

    /// Where the kernel writes up to [`SIZE_BYTES`].
    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Notes what the kernel has written.
    pub(super) fn set_received(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes.min(SIZE_BYTES as u64) as usize;
    }

    /// The control for an answer from the address that was asked; `None`: the system chooses.
    #[allow(unsafe_code, reason = "control messages are read and written through libc's layout")]
    pub(super) fn for_answer(&mut self) -> Option<(*mut libc::c_void, usize)> {
        if self.size_bytes < mem::size_of::<libc::cmsghdr>() {
            return None;
        }
        let head = self.bytes.as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: the buffer is aligned to 8 as `cmsghdr` asks, was just found to hold one, and
        // a `cmsghdr` is integers only: any bytes are valid.
        let (level, kind) = unsafe { ((*head).cmsg_level, (*head).cmsg_type) };
        // SAFETY: CMSG_DATA only adds the header's size to a pointer that is not null.
        let data = unsafe { libc::CMSG_DATA(head) };
        let payload_size = match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let place = data.cast::<libc::in_pktinfo>();
                // SAFETY: header and `in_pktinfo` take 28 of the 64 bytes, the data are aligned
                // to 8 behind the header's 16 bytes, and the struct is integers only.
                let mut info = unsafe { place.read() };
                // The destination becomes the source. No interface is forced, so that routing
                // stays the system's.
                info.ipi_spec_dst = info.ipi_addr;
                info.ipi_ifindex = 0;
                // SAFETY: the same place that was just read.
                unsafe { place.write(info) };
                mem::size_of::<libc::in_pktinfo>()
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let place = data.cast::<libc::in6_pktinfo>();
                // SAFETY: header and `in6_pktinfo` take 36 of the 64 bytes; otherwise as above.
                let mut info = unsafe { place.read() };
                // A link-local address means nothing without its interface.
                if !Ipv6Addr::from(info.ipi6_addr.s6_addr).is_unicast_link_local() {
                    info.ipi6_ifindex = 0;
                }
                // SAFETY: the same place that was just read.
                unsafe { place.write(info) };
                mem::size_of::<libc::in6_pktinfo>()
            }
            _ => return None,
        };
        // SAFETY: CMSG_SPACE is arithmetic on its argument.
        let space = unsafe { libc::CMSG_SPACE(payload_size as libc::c_uint) };
        Some((self.as_mut_ptr(), space as usize))
    }
}

/// The places of the kernel's answer to `SO_MEMINFO`, and the one of the drops (`sock_diag.h`).
const MEMINFO_PLACES: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// How many datagrams were dropped for want of room; `None` where the system does not tell.
#[allow(unsafe_code, reason = "getsockopt is a system call")]
pub(super) fn dropped(descriptor: RawFd) -> Option<u64> {
    let mut places = [0_u32; MEMINFO_PLACES];
    let mut size = mem::size_of_val(&places) as libc::socklen_t;
    // SAFETY: a descriptor that is not open is an error of the call, which writes at the most
    // `size` bytes into an array of that size.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            places.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    let is_whole = result == 0 && size as usize == mem::size_of_val(&places);
    is_whole.then_some(u64::from(places[MEMINFO_DROPS]))
}
