//! A connection that has begun as HTTP/2 does, and the tasks of its streams.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{AbortHandle, AbortRegistration, Abortable};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What every client of HTTP/2 says first.
const PREFACE: usize = 24;

/// A socket of which the first bytes were read already.
pub(super) struct Begun<S> {
    first: [u8; PREFACE],
    taken: usize,
    rest: S,
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Reads the first bytes. Who never says anything is never asked whether it lives, so this must not last for ever.
    pub(super) async fn new(mut socket: S) -> io::Result<Self> {
        let mut first = [0; PREFACE];
        socket.read_exact(&mut first).await?;
        Ok(Self { first, taken: 0, rest: socket })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = &this.first[this.taken..];
        if left.is_empty() {
            return Pin::new(&mut this.rest).poll_read(context, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        this.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.rest.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_shutdown(context)
    }
}

/// Runs a connection's streams, so that each can be ended by itself: one whose client takes nothing is not asked for more,
/// and so would never notice. The connection starts a stream's task right after its service was called.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Option<AbortRegistration>>>);

impl Streams {
    /// Ends the stream that the service is called for.
    pub(super) fn handle(&self) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(registration);
        handle
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let registration = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match registration {
            Some(registration) => tokio::spawn(Abortable::new(stream, registration).map(drop)),
            None => tokio::spawn(stream),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_read_first_is_read_first() {
        let said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more".to_vec();
        let mut begun = Begun::new(&said[..]).await.expect("it has begun");
        let mut read = Vec::new();
        let mut few = [0; 7];
        begun.read_exact(&mut few).await.expect("the first bytes");
        read.extend_from_slice(&few);
        begun.read_to_end(&mut read).await.expect("the others");
        assert_eq!(read, said);
        assert!(Begun::new(&b"PRI"[..]).await.is_err(), "it ended before that");
    }
}
