//! A primary that Sentinels name: where it is now, and when it is another one.
//!
//! For: the link's question before each connection, and leaving a primary that hangs while another
//! has been promoted. Not for: asking (`whered_replication::sentinel`), the link's work (`link`).

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use whered_engine::sync;
use whered_replication::sentinel::SentinelQuery;
use whered_replication::{Address, Endpoint, LinkError, Patience};

use super::options::{ReplicaOptions, Sentinels};
use super::stop::LinkStop;
use super::{LinkContext, Resolve, RunningLink};

/// How often a Sentinel is asked.
const LOOK_EVERY: Duration = Duration::from_secs(2);

const PATIENCE: Patience = Patience {
    opening: Duration::from_secs(2),
    silence: Duration::from_secs(3),
    preparing: Duration::from_secs(3),
};

/// A link to the primary that Sentinels name, and the thread that asks them.
pub(super) struct RunningSentinel {
    link: RunningLink,
    stop: Arc<LinkStop>,
    thread: JoinHandle<()>,
}

impl RunningSentinel {
    /// Starts the link.
    ///
    /// # Errors
    /// There are too many links, or the system has no thread or descriptor left.
    pub(super) fn start(
        context: &LinkContext,
        options: &ReplicaOptions,
        sentinels: &Sentinels,
    ) -> io::Result<RunningSentinel> {
        let followed = Arc::<Mutex<Option<Endpoint>>>::default();
        let (asked, shown) = (sentinels.clone(), Arc::clone(&followed));
        let resolve: Resolve = Box::new(move || {
            let endpoint = primary_of(&asked)?;
            *sync::lock(&shown) = Some(endpoint.clone());
            let (credentials, tls) = (asked.credentials.clone(), asked.tls.clone());
            Ok(Address { endpoint, credentials, tls })
        });
        let link = context.start(options, options.link_name(), resolve)?;
        let stop = Arc::<LinkStop>::default();
        let (asked, of) = (sentinels.clone(), options.of.clone());
        let (watched, link_stop) = (Arc::clone(&stop), Arc::clone(&link.stop));
        let watch = move || {
            while !watched.wait(LOOK_EVERY) {
                let Ok(named) = primary_of(&asked) else { continue };
                let present = sync::lock(&followed).clone();
                if present.is_some_and(|present| present != named) {
                    tracing::info!("the replica of {of} leaves its primary: it is {named} now");
                    link_stop.reconnect();
                }
            }
        };
        match Builder::new().name("replica-sentinel".to_owned()).spawn(watch) {
            Ok(thread) => Ok(RunningSentinel { link, stop, thread }),
            Err(error) => {
                context.end(link);
                Err(error)
            }
        }
    }

    /// Ends the link; nothing is written for it any more when this is over.
    pub(super) fn end(self, context: &LinkContext) {
        self.stop.stop();
        context.end(self.link);
        if self.thread.join().is_err() {
            tracing::error!("the thread that asks Sentinels has failed");
        }
    }
}

fn primary_of(sentinels: &Sentinels) -> Result<Endpoint, LinkError> {
    let Sentinels { sentinels, name, credentials, tls } = sentinels;
    SentinelQuery { sentinels, name, credentials, tls: tls.as_ref() }.primary(PATIENCE)
}
