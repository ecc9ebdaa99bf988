//! Requests that were not let in (`docs/access.md`).

use prometheus::{IntCounterVec, Opts, Registry, Result};

use super::added;

/// Its caller has sent too many.
pub const RATE: &str = "rate";
/// Why requests are refused: without a token, with one that is not known, with one whose role does not suffice, or with one
/// that is for other resource managers; from a page that must not; or since there were too many.
const REASONS: [&str; 6] = ["no_token", "unknown_token", "role", "resource_manager", "origin", RATE];

/// The doors that refuse.
const DOORS: [&str; 2] = ["http", "grpc"];

/// Counts refused requests.
#[derive(Clone, Debug)]
pub struct Refused(IntCounterVec);

impl Refused {
    /// At zero, with every door and reason, so that the first refusal is seen as an increase.
    pub(super) fn new(registry: &Registry) -> Result<Refused> {
        let opts = Opts::new(
            "callboard_requests_refused_total",
            "Requests that were not let in, by `door` and `reason` (see docs/access.md).",
        );
        let counter = added(registry, IntCounterVec::new(opts, &["door", "reason"])?)?;
        for door in DOORS {
            for reason in REASONS {
                counter.with_label_values(&[door, reason]).reset();
            }
        }
        Ok(Refused(counter))
    }

    /// The HTTP door refused a request for one of the `REASONS`.
    pub fn http(&self, reason: &str) {
        self.0.with_label_values(&[DOORS[0], reason]).inc();
    }

    /// The gRPC door refused a call for one of the `REASONS`.
    pub fn grpc(&self, reason: &str) {
        self.0.with_label_values(&[DOORS[1], reason]).inc();
    }
}
