//! Calls that are carried out once, however often they are sent: by a key of the sender's own (metadata `idempotency-key`).

use std::sync::Arc;

use tonic::{
    Code, Status,
    metadata::{AsciiMetadataValue, MetadataMap},
};

use super::status;
use crate::{
    actors::{
        rm::handle::{Gate, RmHandle},
        topology::Topology,
    },
    messages::{
        keys::{Asked, Claim, Known, LONGEST, digest},
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

fn key(metadata: &MetadataMap) -> Result<Option<&str>, Status> {
    let Some(key) = metadata.get(KEY) else { return Ok(None) };
    let wrong = || Status::invalid_argument(format!("{KEY} is not a text of 1 to {LONGEST} visible ASCII characters"));
    let key = AsciiMetadataValue::to_str(key).map_err(|_| wrong())?.trim();
    if key.is_empty() || key.len() > LONGEST { Err(wrong()) } else { Ok(Some(key)) }
}

/// The key of a call that goes by no session.
pub fn asked(metadata: &MetadataMap, what: &str, message: &[u8]) -> Result<Option<Asked>, Status> {
    Ok(key(metadata)?.map(|key| Asked::new(key, what, &[message])))
}

/// Waits for the turn of a call. `None`: it has no key. `Some(None)`: it was carried out before.
pub async fn turn(
    topology: &Topology,
    rm: &str,
    metadata: &MetadataMap,
    what: &str,
    message: &[u8],
) -> Result<Option<Option<Now>>, Status> {
    let Some(key) = key(metadata)? else { return Ok(None) };
    let handle = status::registered(topology, what, rm).await?;
    let gate = handle.gate(what).map_err(status::refusal)?;
    match gate.shared.keys.claim(key, digest(what, &[message])) {
        Known::New(claim) => Ok(Some(Some(Now { handle, gate, claim }))),
        Known::Taken => Ok(Some(None)),
        Known::Waits(key) => {
            // It is acknowledged when the first one is.
            let applied = handle.recorded(gate.shared.keys.applied(key)).await.map_err(status::refusal)?;
            handle.is_here().map_err(status::refusal)?;
            if !applied {
                return Err(status::refusal(handle.over(gate.epoch)));
            }
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

    /// It was carried out: its key keeps it from being carried out again.
    pub fn done(mut self) {
        if let Some(taken) = self.claim.taken() {
            self.handle.carried_out(&self.gate, Receipt::Keyed(taken, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::actors::{
        rm::{handle::RmView, tests::topology},
        topology::Registration,
    };

    #[actix::test]
    async fn one_that_cannot_be_recorded_is_not_waited_for() {
        let topology = topology();
        topology.register(Registration { rm: "rm-1".into(), ..Default::default() }).await.expect("taken");
        let mut metadata = MetadataMap::new();
        metadata.insert(KEY, "k".parse().expect("a key"));
        let call = || turn(&topology, "rm-1", &metadata, "Call", b"message");
        let Ok(Some(Some(mut first))) = call().await else { panic!("it is the first") };
        let taken = first.claim.taken().expect("once");
        let handle = topology.find("rm-1").expect("known");
        let failing = |why: Option<&str>| {
            handle.view.store(Arc::new(RmView { failing: why.map(Arc::from), ..(**handle.view.load()).clone() }));
        };
        let waits = timeout(Duration::from_secs(5), call());
        let (refused, ()) = tokio::join!(waits, async { failing(Some("the disk is full")) });
        let refused = refused.expect("it does not hang").err().expect("refused");
        assert_eq!(refused.code(), Code::Unavailable);
        let detail = "the disk is full; what this request said may count then: send it again";
        assert_eq!(refused.message(), detail);
        failing(None);
        let (again, ()) = tokio::join!(call(), async { drop(taken) });
        assert!(matches!(again, Ok(Some(None))), "it was carried out");
    }
}
