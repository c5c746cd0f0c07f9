//! A server that gives its place to a successor, or takes it back.
//!
//! Not for: what is said between the two (`listen/handover`).
//!
//! Invariants: DNS answers from memory until the successor serves; nothing writes after the data
//! directory is given up. At the same time: the one that hands over is not reloaded meanwhile.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;
use whered_engine::sync;

use tokio::sync::mpsc;

use super::{Server, ServerError};
use crate::dns::{AdoptedConnection, DnsListener, Give};
use crate::listen::{HandoverState, Predecessor, Successor, SuccessorListener};

/// What changes hands with other processes.
#[derive(Default)]
pub(crate) struct HandOver {
    /// Who listens for a successor; nobody without a data directory.
    pub(crate) waiting: Option<SuccessorListener>,
    pub(crate) successors: Option<mpsc::UnboundedReceiver<Successor>>,
    /// The process whose place this one takes, until it is dismissed.
    pub(crate) predecessor: Option<Arc<Predecessor>>,
}

impl HandOver {
    /// Listens for a successor where there is a data directory to meet in.
    pub(crate) fn start(data_dir: Option<&Path>, handed: HandoverState) -> HandOver {
        let Some(data_dir) = data_dir else {
            return HandOver::default();
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        match SuccessorListener::start(data_dir, handed, sender) {
            Ok(waiting) => {
                HandOver { waiting: Some(waiting), successors: Some(receiver), predecessor: None }
            }
            Err(error) => {
                let shown = data_dir.display();
                tracing::warn!("nobody can take over from this process by {shown}: {error}");
                HandOver::default()
            }
        }
    }
}

/// What became of a server that was to hand over.
pub enum HandedOver {
    /// The successor serves; this process has nothing left to do.
    Done,
    /// The successor was gone before it served: this is a server in its place.
    Resumed(Box<Server>),
    /// It was told to give up, and is stopped.
    Stopped,
}

impl Server {
    /// Waits for a process that wants to take over; for ever when there is no way for one.
    pub async fn successor(&mut self) -> Successor {
        match &mut self.handover.successors {
            Some(successors) => match successors.recv().await {
                Some(successor) => successor,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }

    /// Sends the process away whose place this one has taken, now that this one serves; nothing for
    /// other servers.
    pub fn dismiss_predecessor(&mut self) {
        let Some(predecessor) = self.handover.predecessor.take() else {
            return;
        };
        predecessor.dismiss();
        let Some(adopter) = self.listeners.dns.as_ref().map(DnsListener::adopter) else {
            return;
        };
        let take = move || {
            predecessor.take_connections(|connection, speaks| {
                // A listener that is closed again closes them, too.
                let _ = adopter.send(AdoptedConnection { stream: connection.into(), speaks });
            });
        };
        if let Err(error) = Builder::new().name("whered-adopt".to_owned()).spawn(take) {
            tracing::warn!("connections of the old process are not taken over: {error}");
        }
    }

    /// Gives everything to a successor: RESP and HTTP answer what they have read and close, the
    /// journal is closed, and DNS goes on until the successor serves. `give_up` is asked ten times
    /// a second whether this process is to stop without waiting any longer.
    ///
    /// # Errors
    /// The successor was gone, and what it had taken could not be opened again.
    pub fn hand_over(
        mut self,
        successor: Successor,
        mut give_up: impl FnMut() -> bool,
    ) -> Result<HandedOver, ServerError> {
        tracing::info!("handing over to another process");
        let handed = self.handover.waiting.take().map(SuccessorListener::stop).unwrap_or_default();
        self.helpers.stop();
        let (resp, http) = (self.listeners.resp.take(), self.listeners.http.take());
        std::thread::scope(|scope| {
            resp.map(|resp| scope.spawn(|| resp.hand_over()));
            http.map(|http| scope.spawn(|| http.stop()));
        });
        let dns = self.listeners.dns.take();
        let mut gave_up = false;
        let given = self.engine.give_up_data();
        if let Err(error) = &given {
            tracing::error!("the data cannot be handed over: {error}");
        }
        let serves = given.is_ok() && successor.give_data().is_ok() && {
            successor.serves(|| {
                gave_up = gave_up || give_up();
                gave_up
            })
        };
        if serves {
            if let Some(dns) = dns {
                let takes = successor.takes_connections();
                let give: Give = Box::new(move |connection, speaks| {
                    successor.give_connection(connection, speaks)
                });
                dns.hand_over(takes.then_some(give));
            }
            return Ok(HandedOver::Done);
        }
        // A successor that is still there sees now that nothing more comes.
        drop(successor);
        if gave_up {
            dns.into_iter().for_each(DnsListener::stop);
            return Ok(HandedOver::Stopped);
        }
        tracing::error!("the other process was gone before it served; serving on");
        let latest = sync::unpoisoned(self.latest.into_inner());
        let resumed = Server::start_after(latest, None, handed, self.links);
        if let Some(dns) = dns {
            let next = resumed.as_ref().ok().and_then(|server| server.listeners.dns.as_ref());
            dns.hand_over(next.map(|next| give_within(next.adopter())));
        }
        Ok(HandedOver::Resumed(Box::new(resumed?)))
    }
}

/// Gives connections to another listener of this process.
fn give_within(adopter: mpsc::UnboundedSender<AdoptedConnection>) -> Give {
    Box::new(move |connection, speaks| {
        let stream = connection.try_clone_to_owned()?.into();
        adopter
            .send(AdoptedConnection { stream, speaks })
            .map_err(|_| io::ErrorKind::NotConnected.into())
    })
}
