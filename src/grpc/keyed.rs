//! Calls that are carried out once, however often they are sent: by a key of the sender's own (metadata `idempotency-key`).

use std::sync::Arc;

use tonic::{
    Code, Status,
    metadata::{AsciiMetadataValue, MetadataMap},
};

use super::status;
use crate::{
    actors::{
        rm::handle::{Gate, RmHandle, not_registered},
        topology::Topology,
    },
    messages::{
        keys::{Claim, Known, LONGEST},
        receipts::Receipt,
    },
};

/// The key of a call.
const KEY: &str = "idempotency-key";

/// A call that is carried out now.
pub struct Now {
    handle: Arc<RmHandle>,
    gate: Gate,
    claim: Claim,
}

/// Waits for the turn of a call. `None`: it has no key. `Some(None)`: it was carried out before.
pub async fn turn(
    topology: &Topology,
    rm: &str,
    metadata: &MetadataMap,
    what: &str,
    message: &[u8],
) -> Result<Option<Option<Now>>, Status> {
    let Some(key) = metadata.get(KEY) else { return Ok(None) };
    let wrong = || Status::invalid_argument(format!("{KEY} is not a text of 1 to {LONGEST} visible ASCII characters"));
    let key = AsciiMetadataValue::to_str(key).map_err(|_| wrong())?.trim();
    if key.is_empty() || key.len() > LONGEST {
        return Err(wrong());
    }
    let unknown = || status::refusal(not_registered(what, rm));
    let handle = topology.look_up(rm).await.map_err(status::refusal)?.ok_or_else(unknown)?;
    let gate = handle.gate(what).map_err(status::refusal)?;
    let mut sum = crc32fast::Hasher::new();
    sum.update(what.as_bytes());
    sum.update(message);
    match gate.shared.keys.claim(key, (message.len() as u64, sum.finalize())) {
        Known::New(claim) => Ok(Some(Some(Now { handle, gate, claim }))),
        Known::Taken => Ok(Some(None)),
        Known::Waits(key) => {
            // It is acknowledged when the first one is.
            gate.shared.keys.applied(key).await;
            handle.is_here().map_err(status::refusal)?;
            Ok(Some(None))
        }
        Known::Busy => Err(Status::new(
            Code::Aborted,
            format!("{KEY}: a call with this key is being carried out: wait for its answer"),
        )),
        Known::Other => {
            Err(Status::invalid_argument(format!("{KEY}: another call had this key: a new one takes a new key")))
        }
    }
}

impl Now {
    /// The session that it is for.
    pub fn epoch(&self) -> u64 {
        self.gate.epoch
    }

    /// It was carried out: it is not once more.
    pub fn done(mut self) {
        if let Some(taken) = self.claim.taken() {
            self.handle.carried_out(&self.gate, Receipt::Keyed(taken, None));
        }
    }
}
