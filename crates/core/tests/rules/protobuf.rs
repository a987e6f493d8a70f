//! Protobuf written by hand, so that the definitions are not compared with themselves: a field is its number, its wire
//! type and its value, and a message is its fields.

/// Fields, one after the other.
pub(crate) fn message<const N: usize>(fields: [Vec<u8>; N]) -> Vec<u8> {
    fields.concat()
}

/// A number or an enum; negative ones have ten bytes.
pub(crate) fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value.cast_unsigned())].concat()
}

/// A double.
pub(crate) fn double(field: u64, value: f64) -> Vec<u8> {
    [varint((field << 3) | 1), value.to_le_bytes().to_vec()].concat()
}

/// Bytes, among them an inner message.
pub(crate) fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    let length = u64::try_from(value.len()).expect("a short field");
    [varint((field << 3) | 2), varint(length), value.to_vec()].concat()
}

/// A text.
pub(crate) fn text(field: u64, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

/// An inner message.
pub(crate) fn inner<const N: usize>(field: u64, fields: [Vec<u8>; N]) -> Vec<u8> {
    bytes(field, &message(fields))
}

/// An inner `google.protobuf.Any`.
pub(crate) fn any(field: u64, full_name: &str, value: &[u8]) -> Vec<u8> {
    inner(field, [text(1, &format!("type.googleapis.com/{full_name}")), bytes(2, value)])
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
    out
}

#[test]
fn the_writer_writes_what_the_encoding_guide_shows() {
    assert_eq!(number(1, 150), [0x08, 0x96, 0x01]);
    assert_eq!(text(2, "testing"), [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
    assert_eq!(inner(3, [number(1, 150)]), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    assert_eq!(number(1, -2), [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    assert_eq!(double(3, 1.0), [0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    assert_eq!(text(39, "")[..], [0xba, 0x02, 0x00], "a number above 15 needs two bytes");
}
