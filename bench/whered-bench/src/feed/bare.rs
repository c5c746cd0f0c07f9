//! A bare receiver: the ceiling of what a feed's door can do on this machine.
//!
//! For: the same HTTP library, one append and one fdatasync for each group, a `202`; nothing is
//! looked at and nothing is done later. Not for: keeping anything.
//!
//! ```text
//! POST ─► body in memory ─► group ─► write, fdatasync ─► 202 to everybody in the group
//! ```
//!
//! Concurrency: one thread of a runtime for all connections, one thread that writes; a group is
//! what came while the last one was on its way to the disk.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use tokio::sync::oneshot;

/// An upload that waits for its group.
type Waiting = (Bytes, oneshot::Sender<bool>);

/// Serves `POST` of any path under `/v1/feeds/` until the process ends; says `http ADDRESS` and
/// `ready` on `out`.
///
/// # Errors
///
/// The address or the file cannot be had.
pub fn serve(address: SocketAddr, file: &Path, out: &mut dyn Write) -> io::Result<()> {
    let file = File::create(file)?;
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("bare-writer".to_owned())
        .spawn(move || write(file, &receiver))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(address).await?;
        writeln!(out, "http {}\nready", listener.local_addr()?)?;
        out.flush()?;
        let router = Router::new()
            .route("/v1/feeds/{feed}", post(take))
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(sender);
        axum::serve(listener, router).await
    })
}

async fn take(State(sender): State<Sender<Waiting>>, body: Bytes) -> StatusCode {
    let (done, durable) = oneshot::channel();
    if sender.send((body, done)).is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match durable.await {
        Ok(true) => StatusCode::ACCEPTED,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn write(mut file: File, receiver: &Receiver<Waiting>) {
    while let Ok(first) = receiver.recv() {
        let mut group = vec![first];
        group.extend(receiver.try_iter());
        let mut append = || -> io::Result<()> {
            for (bytes, _) in &group {
                file.write_all(bytes)?;
            }
            file.sync_data()
        };
        let is_durable = append().is_ok();
        for (_, done) in group {
            // A client that has gone does not want to know.
            let _ = done.send(is_durable);
        }
    }
}
