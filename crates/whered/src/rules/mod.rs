//! `whered rules` and `whered match`: packet rules on the command line.
//!
//! Not for: formats, analysis and matching (`whered-rules`), captures (`whered-capture`). There is
//! no server here, but for `follow`: live sets are taken as empty, which is told; places are those of
//! files (`--db`), and a rule that asks for one that none has is an error.

mod apply;
mod captures;
mod check;
mod compile;
mod convert;
mod explain;
pub(crate) mod flags;
mod follow;
mod live;
mod load;
mod log_fields;
mod logs;
mod packets;
mod place;
mod report;
mod sweep;
mod test;

pub(crate) use apply::run as apply;
pub(crate) use check::run as check;
pub(crate) use compile::run as compile;
pub(crate) use convert::run as convert;
pub(crate) use explain::run as explain;
pub(crate) use follow::run as follow;
pub(crate) use sweep::run as find;
pub(crate) use test::run as test;
