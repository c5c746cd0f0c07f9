//! What the wire tests share: a door over an engine in memory, and a client that reads replies.
//!
//! Not for: what is asked and expected (the tests themselves).
#![allow(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod client;

use std::net::SocketAddr;
use std::sync::Arc;

use whered_engine::{Engine, EngineOptions};
use whered_server::resp::{RespListener, RespOptions};

use client::Client;

/// A RESP door over an engine, on a free loopback port.
pub(crate) struct Door {
    pub(crate) engine: Arc<Engine>,
    pub(crate) door: RespListener,
}

impl Door {
    /// A door with nothing behind it but memory.
    pub(crate) fn in_memory() -> Door {
        Door::with(EngineOptions::default(), |_| {})
    }

    /// A door over an engine with these options, its own options changed as needed.
    pub(crate) fn with(engine: EngineOptions, change: impl FnOnce(&mut RespOptions)) -> Door {
        let (engine, _) = Engine::open(engine).expect("the engine opens");
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let mut options = RespOptions { listen, threads: Some(2), ..RespOptions::default() };
        change(&mut options);
        let door = RespListener::start(Arc::clone(&engine), options).expect("the door opens");
        Door { engine, door }
    }

    /// A new connection.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.door.addresses()[0])
    }
}
