//! The protobuf wire format, read without a schema.

/// The bytes are not protobuf, or not of the type expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// A numbered field.
pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) value: Raw<'a>,
}

/// A value as it travels.
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

impl<'a> Raw<'a> {
    pub(super) fn bytes(&self) -> Result<&'a [u8], Malformed> {
        match self {
            Raw::Bytes(bytes) => Ok(bytes),
            Raw::Varint(_) | Raw::Fixed64(_) | Raw::Fixed32(_) => Err(Malformed),
        }
    }

    pub(super) fn integer(&self) -> Result<i64, Malformed> {
        match self {
            Raw::Varint(value) => Ok(value.cast_signed()),
            Raw::Bytes(_) | Raw::Fixed64(_) | Raw::Fixed32(_) => Err(Malformed),
        }
    }

    pub(super) fn float(&self) -> Result<f64, Malformed> {
        match self {
            Raw::Fixed64(bytes) => Ok(f64::from_le_bytes(*bytes)),
            Raw::Fixed32(bytes) => Ok(f64::from(f32::from_le_bytes(*bytes))),
            Raw::Varint(_) | Raw::Bytes(_) => Err(Malformed),
        }
    }
}

/// The fields of a message, in order; ends after the first malformed one.
pub(super) fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<Field<'_>, Malformed>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next(&mut rest).ok_or(Malformed);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => Raw::Varint(varint(rest)?),
        1 => Raw::Fixed64(take(rest, 8)?.try_into().ok()?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Raw::Bytes(take(rest, length)?)
        }
        5 => Raw::Fixed32(take(rest, 4)?.try_into().ok()?),
        _ => return None,
    };
    Some(Field { number: key >> 3, value })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
