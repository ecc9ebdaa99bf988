//! The wire form of protobuf, field by field: so that a message is read item by item, and counted before anything is made of it.

/// The fields of a message in the order of its bytes.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of any kind; its value where it is a variable one.
    Number(u64),
}

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is not protobuf: {0}")]
pub struct Malformed(&'static str);

impl<'a> Fields<'a> {
    /// Those of this message.
    pub fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed("it ends within a field"))?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("a number has more than ten bytes"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let taken = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (bytes, rest) = taken.ok_or(Malformed("it ends within a field"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let key = self.number()?;
        let field = u32::try_from(key >> 3).ok().filter(|field| *field > 0).ok_or(Malformed("no such field number"))?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.bytes(8).map(|_| Value::Number(0))?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Value::Number(0))?,
            // Groups went out of use before these messages were made.
            _ => return Err(Malformed("a field of an unknown kind")),
        };
        Ok((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    /// Nothing follows a fault.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::v1;

    #[test]
    fn fields_are_told_apart() {
        let node = |id: &str| v1::NodeInfo { node_id: id.into(), action: 300, ..Default::default() };
        let request =
            v1::NodeRequest { nodes: vec![node("a"), node("b"), v1::NodeInfo::default()], rm_id: "rm".into() };
        let bytes = request.encode_to_vec();
        let fields: Vec<_> = Fields::of(&bytes).map(Result::unwrap).collect();
        let first = node("a").encode_to_vec();
        assert_eq!(fields.iter().map(|(field, _)| *field).collect::<Vec<_>>(), [1, 1, 1, 2]);
        assert_eq!(
            (fields[0].1, fields[2].1, fields[3].1),
            (Value::Bytes(&first), Value::Bytes(b""), Value::Bytes(b"rm"))
        );
        assert_eq!(Fields::of(&first).nth(1), Some(Ok((2, Value::Number(300)))));
    }

    #[test]
    fn what_is_no_message_ends_with_a_fault() {
        for bad in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0b",
            b"\x00\x01",
            b"\x09\x01",
            b"\x08\x80",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        ] {
            let fields: Vec<_> = Fields::of(bad).collect();
            assert!(matches!(fields[..], [Err(_)]), "{bad:?} {fields:?}");
        }
    }
}
