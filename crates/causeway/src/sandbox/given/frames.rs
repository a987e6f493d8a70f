//! What travels between the sandbox and the kubelet's stand-in: a byte that says what, four that say how
//! much, and that. The other end is `hack/control-plane/kubelet/bridge.go`.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// From the stand-in: what is to be run, as JSON.
pub(super) const REQUEST: u8 = b'r';
/// To the stand-in: a refusal, or an empty object.
pub(super) const ANSWER: u8 = b'a';
/// From the stand-in: the caller is connected.
pub(super) const GO: u8 = b'g';
/// From the stand-in; an empty one is the end of the input.
pub(super) const STDIN: u8 = b'i';
/// From the stand-in: columns and rows, two bytes each.
pub(super) const RESIZE: u8 = b's';
/// To the stand-in.
pub(super) const STDOUT: u8 = b'o';
/// To the stand-in.
pub(super) const STDERR: u8 = b'e';
/// To the stand-in: how the command ended, as JSON.
pub(super) const END: u8 = b'x';

/// The longest frame that is taken in: a request with its whole script is some ten thousand bytes.
const LONGEST: u32 = 1 << 20;

/// The next frame; none when the other end is gone.
pub(super) async fn receive(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(u8, Vec<u8>)>> {
    let kind = match from.read_u8().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        kind => kind?,
    };
    let length = from.read_u32().await?;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    let mut data = vec![0; usize::try_from(length).unwrap_or_default()];
    from.read_exact(&mut data).await?;
    Ok(Some((kind, data)))
}

/// Sends a frame.
pub(super) async fn send(to: &mut (impl AsyncWrite + Unpin), kind: u8, data: &[u8]) -> io::Result<()> {
    let length = u32::try_from(data.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(data.len() + 5);
    frame.push(kind);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(data);
    to.write_all(&frame).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_arrive_as_they_were_sent_and_an_absurd_one_is_refused() {
        let (mut near, mut far) = tokio::io::duplex(64);
        send(&mut near, STDIN, b"text").await.expect("sent");
        send(&mut near, STDIN, b"").await.expect("sent");
        assert_eq!(receive(&mut far).await.expect("a frame"), Some((STDIN, b"text".to_vec())));
        assert_eq!(receive(&mut far).await.expect("a frame"), Some((STDIN, Vec::new())));
        near.write_all(&[b'i', 0xff, 0, 0, 0]).await.expect("sent");
        assert!(receive(&mut far).await.is_err());
        drop(near);
        assert_eq!(receive(&mut far).await.expect("the end"), None);
    }
}
