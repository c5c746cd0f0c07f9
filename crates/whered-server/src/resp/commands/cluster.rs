//! `CLUSTER ASKING READONLY READWRITE`: there is no cluster, so they are refused as Redis does.
//! Not for: what would be answered if there were one.

use super::{Action, Command, Failure, Flag, OPERATOR, Outcome};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const DISABLED: Failure = Failure::text("ERR This instance has cluster support disabled");

const CLUSTER_COMMAND: Command =
    Command { flags: &[], group: "cluster", since: "3.0.0", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "cluster",
        arity: -2,
        syntax: "subcommand ...",
        summary: "A container for commands about a cluster, of which there is none",
        cost: "Depends on the subcommand.",
        action: Action::Subcommands(CLUSTER),
        ..CLUSTER_COMMAND
    },
    Command { name: "asking", summary: "Refused: there is no cluster", ..CONNECTION_MODE },
    Command { name: "readonly", summary: "Refused: there is no cluster", ..CONNECTION_MODE },
    Command { name: "readwrite", summary: "Refused: there is no cluster", ..CONNECTION_MODE },
];

/// How a connection may use a replica of a cluster.
const CONNECTION_MODE: Command =
    Command { arity: 1, flags: &[Flag::Fast], action: Action::Run(refuse), ..CLUSTER_COMMAND };

const CLUSTER: &[Command] = &[
    Command {
        name: "cluster|help",
        flags: &[],
        summary: "Refused: there is no cluster",
        since: "5.0.0",
        action: Action::Run(refuse),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|info",
        summary: "Refused: there is no cluster",
        action: Action::Run(refuse),
        ..CLUSTER_COMMAND
    },
];

fn refuse(_: &mut Session, _: Args<'_>, _: &mut Reply) -> Outcome {
    Err(DISABLED)
}
