//! Usage as bytes: why it is told, and a row for each user or group in each queue.
//!
//! Every file begins with one, so that the usage before its first event is known when earlier files are gone.

use std::sync::Arc;

use super::{
    codec::{self, Input, Malformed, unsigned},
    frame::Head,
};
use crate::domain::{
    resources::Resource,
    types::Nanos,
    ugm::Who,
    usage::{PointReason, UsageKey, UsagePoint},
};

/// Appends the payload of a point. Names that repeat from row to row, as sorted rows have them, are written once.
pub fn encode(reason: PointReason, rows: &[(UsageKey, Resource)], out: &mut Vec<u8>) {
    out.push(reason as u8);
    unsigned(out, rows.len() as u64);
    let mut last = ["", "", ""];
    for (key, amounts) in rows {
        out.push(match key.who {
            Who::User => 0,
            Who::Group => 1,
        });
        let names = [&*key.partition, &*key.name, &*key.queue];
        for (name, last) in names.into_iter().zip(&mut last) {
            // 0: as in the row before.
            if name == *last {
                out.push(0);
                continue;
            }
            unsigned(out, name.len() as u64 + 1);
            out.extend_from_slice(name.as_bytes());
            *last = name;
        }
        codec::amounts(out, amounts);
    }
}

/// Reads what [`encode`] wrote.
pub fn decode(head: &Head, bytes: &[u8]) -> Result<UsagePoint, Malformed> {
    let mut input = Input { rest: bytes };
    let number = input.byte()?;
    let known = PointReason::ALL.into_iter().find(|reason| *reason as u8 == number);
    let reason = known.ok_or(Malformed("an unknown reason"))?;
    let count = input.count()?;
    let mut rows = Vec::with_capacity(count);
    let mut last: [Arc<str>; 3] = Default::default();
    for _ in 0..count {
        let who = match input.byte()? {
            0 => Who::User,
            1 => Who::Group,
            _ => return Err(Malformed("neither user nor group")),
        };
        for name in &mut last {
            match input.count_plus(1)? {
                0 => {}
                length => *name = input.text_of(length - 1)?.into(),
            }
        }
        let amounts = input.amounts()?;
        let [partition, name, queue] = last.clone();
        rows.push((UsageKey { partition, who, name, queue }, amounts));
    }
    if !input.rest.is_empty() {
        return Err(Malformed("more bytes than rows"));
    }
    let (from, to) = (Nanos(head.oldest), Nanos(head.newest));
    Ok(UsagePoint { id: head.first, reason, from, to, rows, relative: false })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::frame, *};

    fn sealed(payload: &[u8]) -> Head {
        let mut bytes = vec![0; frame::HEAD];
        bytes.extend_from_slice(payload);
        Head::seal(&mut bytes, frame::Kind::Usage, 7..7, (3, 5));
        frame::whole(&bytes).unwrap().0
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in proptest::collection::vec(
                ("(\\[rm\\])?default", any::<bool>(), "[ab]{0,2}", "root(\\.[ab]){0,2}", any::<i64>(), any::<i64>()), 0..20,
            ),
            reason in 0..PointReason::ALL.len(),
        ) {
            let rows: Vec<_> = rows.into_iter().map(|(partition, group, name, queue, memory, gpu)| {
                let who = if group { Who::Group } else { Who::User };
                let key = UsageKey { partition: partition.into(), who, name: name.into(), queue: queue.into() };
                (key, Resource::of(&[("memory", memory), ("example.com/gpu", gpu)]))
            }).collect();
            let mut bytes = Vec::new();
            encode(PointReason::ALL[reason], &rows, &mut bytes);
            let read = decode(&sealed(&bytes), &bytes).unwrap();
            let point = UsagePoint {
                id: 7, reason: PointReason::ALL[reason], from: Nanos(3), to: Nanos(5), rows, relative: false,
            };
            prop_assert_eq!(read, point);
        }

        #[test]
        fn other_bytes_are_refused_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&sealed(&bytes), &bytes);
        }
    }
}
