//! HTTP in front of the [`Cluster`]: a request's path and query become a call, the call's result
//! becomes bytes. The lock is held for the call alone, never while encoding or waiting.

mod asked;
mod control;
mod discovery;
mod exec;
mod log;
mod negotiate;
mod openapi;
mod page;
mod path;
mod query;
mod read;
mod respond;
mod watch;
mod write;

use std::any::Any;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{Method, Request};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::audit::{Audit, Wrote};
use crate::cluster::{Cluster, Target};
use crate::counters::Counters;
use crate::exec::Exec;
use crate::faults::{Asked, Switches};
use crate::resource::Resource;
use crate::status::ApiError;
use path::{Place, Route};
use query::Query;
pub(crate) use respond::{error as refusal, partial};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) cluster: RwLock<Cluster>,
    pub(crate) counters: Counters,
    pub(crate) faults: Switches,
    pub(crate) audit: Audit,
    pub(crate) exec: Option<Arc<dyn Exec>>,
    /// Cancelled when the server stops: watches and exec sessions end.
    pub(crate) stopping: CancellationToken,
    /// Exec sessions outlive the request that began them; stopping waits for them.
    pub(crate) sessions: TaskTracker,
}

impl Shared {
    pub(crate) fn read(&self) -> std::sync::RwLockReadGuard<'_, Cluster> {
        self.cluster.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> std::sync::RwLockWriteGuard<'_, Cluster> {
        self.cluster.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Who sent a request, as far as the token says.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) user: String,
}

/// A request whose path leads to a resource.
struct Call {
    shared: Arc<Shared>,
    asked: Arc<Asked>,
    resource: Arc<Resource>,
    place: Place,
    query: Query,
}

impl Call {
    /// The object that the path names.
    fn target(&self) -> Target {
        let Place { namespace, name, .. } = &self.place;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Target::new(&self.resource, &text(namespace), &text(name))
    }
}

/// The service without TLS and without authentication.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    // One broken answer must not take the other streams of its connection along.
    let whole = CatchPanicLayer::custom(|_: Box<dyn Any + Send>| {
        let message = "Internal error occurred: this request caused a panic";
        respond::error(&ApiError::new(500, "InternalError", message))
    });
    Router::new().fallback(answer).with_state(shared).layer(whole)
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    if (request.method(), request.uri().path()) == (&Method::GET, "/metrics") {
        // Not counted: looking at the counters changes nothing.
        return Response::new(Body::from(shared.counters.text()));
    }
    if control::is_control(request.uri().path()) {
        return control::answer(&shared, request).await;
    }
    let route = path::route(request.uri().path());
    let asked = Arc::new(asked::describe(&shared, &route, &request));
    let result = admit_and_dispatch(&shared, &asked, route, request).await;
    let response = result.unwrap_or_else(|error| respond::error(&error));
    let code = response.status().as_u16();
    let clock = shared.read().clock.clone();
    shared.audit.note(&asked, code, response.extensions().get::<Wrote>(), &clock);
    // Paths are without end: those that nothing is served under are counted together.
    let strange = code == 404 && asked.resource.starts_with('/');
    let resource = if strange { String::new() } else { asked.resource.clone() };
    shared.counters.count(asked.verb.clone(), resource, asked.subresource.clone(), code);
    response
}

async fn admit_and_dispatch(
    shared: &Arc<Shared>,
    asked: &Arc<Asked>,
    route: Route,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {
            return Err(ApiError::new(503, "ServiceUnavailable", "the server is stopping"));
        }
        admitted = shared.faults.admit(asked) => admitted?,
    }
    dispatch(shared, asked, route, request).await
}

async fn dispatch(
    shared: &Arc<Shared>,
    asked: &Arc<Asked>,
    route: Route,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    if let Route::Resource(place) = route {
        let resource = shared.read().registry.find(&place.group, &place.version, &place.plural).cloned();
        let resource = resource.ok_or_else(|| ApiError::not_served(request.uri().path()))?;
        let query = Query::of(request.uri())?;
        let call = Call { shared: shared.clone(), asked: asked.clone(), resource, place, query };
        return serve(&call, request).await;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ));
    }
    discovery::answer(shared, &route, request.headers())
}

async fn serve(call: &Call, request: Request<Body>) -> Result<Response, ApiError> {
    let Call { resource, place, query, .. } = call;
    // A cluster-wide resource is not found below a namespace, nor one object of a namespaced
    // resource without.
    let below = place.namespace.is_some();
    if below && !resource.namespaced || (place.name.is_some() && resource.namespaced && !below) {
        return Err(ApiError::not_served(request.uri().path()));
    }
    let headers = request.headers();
    match (place.subresource.as_deref(), request.method().clone()) {
        (None, Method::GET | Method::HEAD) if place.name.is_some() => read::get(call, headers),
        (None, Method::GET | Method::HEAD) if query.flag("watch") => watch::watch(call, headers),
        (None, Method::GET | Method::HEAD) => read::list(call, headers),
        (None, Method::POST) if place.name.is_none() && (below || !resource.namespaced) => {
            write::create(call, request).await
        }
        (None, Method::DELETE) if place.name.is_some() => write::delete(call, request).await,
        (None, Method::DELETE) if resource.is_deleted_in_bulk() && (below || !resource.namespaced) => {
            write::delete_collection(call, request).await
        }
        (None, Method::PUT | Method::PATCH) if place.name.is_some() => write::change(call, request).await,
        (Some("status"), Method::GET | Method::HEAD) if resource.status => read::get(call, headers),
        (Some("status"), Method::PUT | Method::PATCH) if resource.status => {
            write::change(call, request).await
        }
        (Some("scale"), Method::GET | Method::HEAD) if resource.scale.is_some() => read::scale(call),
        (Some("scale"), Method::PUT | Method::PATCH) if resource.scale.is_some() => {
            write::scale(call, request).await
        }
        (Some("exec"), Method::GET | Method::POST) if exec::is_served(resource) => {
            exec::exec(call, request).await
        }
        (Some("log"), Method::GET) if exec::is_served(resource) => log::log(call).await,
        (subresource, method) => Err(refused(resource, subresource, &method, request.uri().path())),
    }
}

/// Either nothing is there, or not for this method.
fn refused(resource: &Resource, subresource: Option<&str>, method: &Method, path: &str) -> ApiError {
    let known = match subresource {
        None => true,
        Some("status") => resource.status,
        Some("scale") => resource.scale.is_some(),
        Some("exec" | "log") => exec::is_served(resource),
        Some(_) => false,
    };
    if !known {
        return ApiError::not_served(path);
    }
    let mut error = ApiError::method_not_allowed(&resource.qualified(), &method.as_str().to_lowercase());
    error.message = "the server does not allow this method on the requested resource".into();
    error
}

#[cfg(test)]
mod tests;
