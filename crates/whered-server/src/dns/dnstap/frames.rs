//! Frame Streams: frames of data behind their lengths, and the conversation before and after them.
//!
//! Not for: what a frame has (`message.rs`), sockets (`mod.rs`).
//!
//! ```text
//! data     length u32 (not 0) | bytes
//! control  0 u32 | length u32 | type u32 | fields: [1 u32 | length u32 | content type] ...
//!
//! we: READY ─► listener: ACCEPT ─► we: START, data ..., STOP ─► listener: FINISH
//! ```
//!
//! Invariant: a control frame is read only if it is at most [`CONTROL_SIZE_MAX`] bytes long and its
//! fields fill it.

/// The content of our frames.
pub(crate) const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// The longest control frame that is read, without the eight bytes before its type.
pub(crate) const CONTROL_SIZE_MAX: usize = 512;
/// The bytes of a control frame before its type.
pub(crate) const CONTROL_HEAD_SIZE: usize = 8;
const FIELD_CONTENT_TYPE: u32 = 1;

/// The type of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlType {
    Accept = 1,
    Start = 2,
    Stop = 3,
    Ready = 4,
    Finish = 5,
}

impl ControlType {
    fn of(number: u32) -> Option<ControlType> {
        use ControlType::{Accept, Finish, Ready, Start, Stop};
        [Accept, Start, Stop, Ready, Finish].into_iter().find(|of| *of as u32 == number)
    }
}

/// A control frame, with our content type or without one.
pub(crate) fn control(control_type: ControlType, has_content_type: bool) -> Vec<u8> {
    let mut body = (control_type as u32).to_be_bytes().to_vec();
    if has_content_type {
        body.extend_from_slice(&FIELD_CONTENT_TYPE.to_be_bytes());
        body.extend_from_slice(&(CONTENT_TYPE.len() as u32).to_be_bytes());
        body.extend_from_slice(CONTENT_TYPE);
    }
    [&[0; 4], &(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// How many bytes follow the head of a control frame; none for what is no such head.
pub(crate) fn control_size(head: [u8; CONTROL_HEAD_SIZE]) -> Option<usize> {
    let [e0, e1, e2, e3, length @ ..] = head;
    let length = u32::from_be_bytes(length) as usize;
    ([e0, e1, e2, e3] == [0; 4] && (4..=CONTROL_SIZE_MAX).contains(&length)).then_some(length)
}

/// Reads what follows the head of a control frame: its type, and whether our content is welcome.
pub(crate) fn read_control(body: &[u8]) -> Option<(ControlType, bool)> {
    let (number, mut fields) = body.split_first_chunk::<4>()?;
    let control_type = ControlType::of(u32::from_be_bytes(*number))?;
    let (mut count, mut is_welcome) = (0, false);
    while !fields.is_empty() {
        let (field, rest) = fields.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if u32::from_be_bytes(*field) != FIELD_CONTENT_TYPE {
            return None;
        }
        count += 1;
        is_welcome |= value == CONTENT_TYPE;
        fields = rest;
    }
    // Who names no content takes any.
    Some((control_type, is_welcome || count == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_frame_is_read_as_it_was_written_and_cut_anywhere_is_none() {
        for (control_type, has_content_type) in
            [(ControlType::Ready, true), (ControlType::Accept, true), (ControlType::Stop, false)]
        {
            let frame = control(control_type, has_content_type);
            let (head, body) = frame.split_first_chunk().unwrap();
            assert_eq!(control_size(*head), Some(body.len()));
            assert_eq!(read_control(body), Some((control_type, true)));
            for length in 0..body.len() {
                // What ends behind the type is a frame of its own.
                let expected = (length == 4).then_some((control_type, true));
                assert_eq!(read_control(&body[..length]), expected, "cut at {length}");
            }
        }
    }

    #[test]
    fn other_contents_types_and_lengths_are_refused() {
        let accept = |content: &[u8]| {
            let length = (content.len() as u32).to_be_bytes();
            [&[0, 0, 0, 1, 0, 0, 0, 1][..], &length, content].concat()
        };
        assert_eq!(read_control(&accept(b"other")), Some((ControlType::Accept, false)));
        assert_eq!(read_control(&accept(CONTENT_TYPE)), Some((ControlType::Accept, true)));
        assert_eq!(read_control(&[0, 0, 0, 9]), None);
        assert_eq!(read_control(&[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]), None);
        for head in [[0, 0, 0, 1, 0, 0, 0, 4], [0, 0, 0, 0, 0, 0, 2, 1], [0, 0, 0, 0, 0, 0, 0, 3]] {
            assert_eq!(control_size(head), None, "{head:?}");
        }
    }
}
