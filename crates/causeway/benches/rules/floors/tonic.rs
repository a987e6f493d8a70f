//! A bare service of tonic's: it sends the newest message to every stream, and reads answers without looking at them.
//! Codec and settings are those that one gets without asking.

use std::convert::Infallible;
use std::future::{Ready, ready};

use causeway_core::rules::wire::transport::v1::{SubscribeRequest, SubscribeResponse};
use futures::stream::{self, BoxStream, StreamExt};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::{listen, publish};
use crate::sample;

pub(crate) async fn run(rules: usize) -> anyhow::Result<()> {
    let listener = listen().await?;
    let (news, reader) = watch::channel(sample::response(rules, 0, 1));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, Bare(reader.clone())));
        }
    });
    publish(news, |instant, number| sample::response(rules, instant, number)).await
}

async fn serve(socket: TcpStream, service: Bare) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let service = service_fn(move |request| {
        let service = service.clone();
        async move {
            let codec = ProstCodec::<SubscribeResponse, SubscribeRequest>::default();
            Ok::<_, Infallible>(Grpc::new(codec).streaming(service, request).await)
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
    builder.serve_connection(TokioIo::new(socket), service).await.map_err(anyhow::Error::from_boxed)
}

#[derive(Clone)]
struct Bare(watch::Receiver<SubscribeResponse>);

impl StreamingService<SubscribeRequest> for Bare {
    type Response = SubscribeResponse;
    type ResponseStream = BoxStream<'static, Result<SubscribeResponse, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<SubscribeRequest>>) -> Self::Future {
        let mut news = self.0.clone();
        news.mark_changed();
        let sent = stream::unfold(news, |mut news| async {
            news.changed().await.ok()?;
            let newest = news.borrow_and_update().clone();
            Some((Ok(newest), news))
        });
        let answers = request.into_inner().filter_map(|_| ready(None));
        ready(Ok(Response::new(stream::select(sent, answers).boxed())))
    }
}
