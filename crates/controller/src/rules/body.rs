//! What connections send: a data plane's stream, in pieces of which the largest is everybody's, or what else is served.
//!
//! A stream that waits holds no bytes of what it was sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tonic::{Code, Status};

use super::message::Pieces;
use super::stream::Subscriber;

/// The body of a response.
#[allow(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub(super) enum Outgoing {
    /// Rules, until the stream ends.
    Rules(Option<Subscriber>),
    /// Anything else.
    Other(tonic::body::Body),
}

impl Body for Outgoing {
    type Data = Pieces;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Status>>> {
        match self.get_mut() {
            Self::Rules(stream) => {
                let Some(subscriber) = stream else { return Poll::Ready(None) };
                let end = match ready!(Pin::new(subscriber).poll_next(context)) {
                    Some(Ok(response)) => return Poll::Ready(Some(Ok(Frame::data(response.into())))),
                    Some(Err(status)) => status,
                    None => Status::new(Code::Ok, ""),
                };
                *stream = None;
                let mut trailers = HeaderMap::new();
                let added = end.add_header(&mut trailers);
                Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))))
            }
            Self::Other(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(Pieces::from))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Rules(stream) => stream.is_none(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Rules(_) => SizeHint::default(),
            Self::Other(body) => body.size_hint(),
        }
    }
}
