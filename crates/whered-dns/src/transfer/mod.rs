//! Transfers of zones between servers: messages, signatures, and what they bring.
//!
//! For: AXFR (RFC 5936), IXFR (RFC 1995), NOTIFY (RFC 1996) and TSIG (RFC 8945) as pure functions:
//! clocks are arguments. Not for: sockets, when to ask, who may have a zone (the server).
//!
//! ```text
//! Zone ─ records ─► Sender ─ messages ─►  ...  ─► Receiver ─► Transfer ─► Zone::from_records
//!      ─ History ─►        AnswerSigner      AnswerVerifier              or Zone::patched
//! ```

mod history;
mod queries;
mod receive;
mod schedule;
mod send;
mod tsig;
pub(crate) mod wire;

pub use history::History;
pub use queries::{
    Operation, ServerRequest, SoaAnswer, SoaTimes, is_notify_answer, notify, query,
    read_soa_answer, reply_to,
};
pub(crate) use receive::serial_of;
pub use receive::{Progress, Receiver, Request, Transfer, TransferError, is_newer};
pub use schedule::Schedule;
pub use send::{RecordTooLarge, Sender};
pub use tsig::{
    AnswerSigner, AnswerVerifier, FUDGE_SECONDS, RefusedQuery, SignedQuery, TsigAlgorithm,
    TsigError, TsigKey, verify_query,
};
