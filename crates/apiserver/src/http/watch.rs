//! Watching: what is there now, if asked for, then every change from there on.
//!
//! A watcher is a cursor into the store's history and a signal that its shelf changed. It takes a
//! batch of events, turns them into lines (each encoded once for all watchers) and hands them to
//! the connection as fast as that takes them. What it does not take stays in the history; when
//! the history has moved on beyond the cursor, the watch ends with "expired".

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::HeaderMap;
use serde_json::json;
use tokio::time::Instant;

use super::negotiate::{Form, Presentation};
use super::query::Query;
use super::read::{list_options_error, too_large, version};
use super::{Call, Shared, respond};
use crate::clock::Clock;
use crate::faults::{Asked, Changes};
use crate::resource::Resource;
use crate::selector::Selector;
use crate::signal::Listener;
use crate::status::{ApiError, FieldError};
use crate::store::{Change, Encoding, EncodingForm, Event, Object};
use crate::table::{row, table};

const BATCH: usize = 128;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark shortly before the end lets the next watch begin where this one ended.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// When the client names no time-out: half an hour, and up to as much again.
const DEFAULT_TIMEOUT: u64 = 1800;
/// A year: as good as for ever, and still a time that a clock has.
const MAX_TIMEOUT: u64 = 365 * 24 * 3600;

struct Watch {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    selector: Selector,
    presentation: Presentation,
    clock: Clock,
    bookmarks: bool,
    /// Objects to be sent first, and whether their end is to be marked.
    initial: VecDeque<Arc<Object>>,
    mark_initial_end: bool,
    cursor: u64,
    changed: Listener,
    closings: u64,
    ready: VecDeque<Bytes>,
    headers_sent: bool,
    ended: bool,
    next_bookmark: Instant,
    last_bookmark: Option<Instant>,
    deadline: Instant,
    asked: Arc<Asked>,
    began: Instant,
    faults: Changes,
}

/// Where a watch begins.
enum From {
    /// With all that is there.
    Present,
    /// With what happens from now on.
    Now,
    After(u64),
}

/// What a request asks for.
struct Options {
    from: From,
    asked: u64,
    selector: Selector,
    presentation: Presentation,
    bookmarks: bool,
    mark_initial_end: bool,
    timeout: Duration,
}

pub(super) fn watch(call: &Call, headers: &HeaderMap) -> Result<Response, ApiError> {
    let options = options(call, headers)?;
    let watch = begin(call, options)?;
    let lines = stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), watch))
    });
    Ok(respond::bytes(200, respond::JSON, Body::from_stream(lines)))
}

fn options(call: &Call, headers: &HeaderMap) -> Result<Options, ApiError> {
    let query = &call.query;
    let asked = version(query.text("resourceVersion"))?;
    let send_initial = query.flag_if_given("sendInitialEvents");
    check_options(query, send_initial)?;
    let bookmarks = query.flag("allowWatchBookmarks");
    Ok(Options {
        from: match (send_initial, asked) {
            (Some(true), _) | (None, 0) => From::Present,
            (Some(false), 0) => From::Now,
            (_, asked) => From::After(asked),
        },
        asked,
        selector: Selector::parse(query.text("labelSelector"), query.text("fieldSelector"), &call.resource)?,
        presentation: Presentation::of(headers, query)?,
        bookmarks,
        mark_initial_end: send_initial == Some(true) && bookmarks,
        timeout: match query.number("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs().min(MAX_TIMEOUT)),
            _ => Duration::from_secs(DEFAULT_TIMEOUT + call.shared.write().ids.next() % DEFAULT_TIMEOUT),
        },
    })
}

fn begin(call: &Call, options: Options) -> Result<Watch, ApiError> {
    let Call { shared, resource, place, .. } = call;
    let cluster = shared.read();
    let store = &cluster.store;
    let changed = store.subscribe(&resource.shelf).ok_or_else(ApiError::no_such_path)?;
    let selector = options.selector;
    let stale =
        call.asked.as_of.or_else(|| shared.faults.stale(&call.asked)).map(|past| past.min(store.version()));
    let (initial, cursor) = match options.from {
        From::Present if options.asked > store.version() => {
            return Err(too_large(options.asked, store.version()));
        }
        From::Present => {
            let namespace = place.namespace.as_deref();
            let past =
                stale.and_then(|past| Some((store.list_at(&resource.shelf, namespace, past).ok()?, past)));
            let (objects, version) =
                past.unwrap_or_else(|| (store.list(&resource.shelf, namespace), store.version()));
            (objects.into_iter().filter(|object| selector.matches(&object.value)).collect(), version)
        }
        From::Now => (VecDeque::new(), store.version()),
        From::After(asked) => (VecDeque::new(), asked),
    };
    let now = Instant::now();
    let deadline = now + options.timeout;
    let mut watch = Watch {
        shared: shared.clone(),
        resource: resource.clone(),
        namespace: place.namespace.clone(),
        selector,
        presentation: options.presentation,
        clock: cluster.clock.clone(),
        bookmarks: options.bookmarks,
        initial,
        mark_initial_end: options.mark_initial_end,
        cursor,
        changed,
        closings: store.closings(&resource.shelf),
        ready: VecDeque::new(),
        headers_sent: false,
        ended: false,
        next_bookmark: now + BOOKMARK_EVERY,
        last_bookmark: deadline.checked_sub(BOOKMARK_BEFORE_END).filter(|at| *at > now),
        deadline,
        asked: call.asked.clone(),
        began: now,
        faults: shared.faults.changes(),
    };
    let forgotten = shared.faults.compacted(&call.asked).unwrap_or(0).max(store.compacted());
    if cursor < forgotten {
        watch.expire(store.version());
    }
    Ok(watch)
}

fn check_options(query: &Query, send_initial: Option<bool>) -> Result<(), ApiError> {
    let matching = query.text("resourceVersionMatch");
    let path = "resourceVersionMatch";
    let mut errors = Vec::new();
    if send_initial.is_some() && matching != "NotOlderThan" {
        errors.push(FieldError::forbidden(
            path,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if !matching.is_empty() {
        if send_initial.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(path, detail));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(path, &matching.into(), &["NotOlderThan".to_owned()]));
        }
    }
    list_options_error(errors)
}

impl Watch {
    /// The next line; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.faults.seen();
            tokio::select! {
                biased;
                () = self.shared.stopping.cancelled() => return None,
                () = self.shared.faults.thawed(&self.asked) => {}
            }
            if self.shared.faults.closes(&self.asked, self.began) {
                return None;
            }
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            if let Some(object) = self.initial.pop_front() {
                return Some(self.line(Change::Added, &object));
            }
            if std::mem::take(&mut self.mark_initial_end) {
                return Some(self.bookmark(true));
            }
            if !self.gather() && self.ready.is_empty() && !self.ended {
                self.wait().await;
            }
        }
    }

    /// Takes the next events of the history; whether there may be more.
    fn gather(&mut self) -> bool {
        // Seen before reading, so that a change meanwhile is not slept over.
        self.changed.mark_seen();
        let (since, current, closings) = {
            let cluster = self.shared.read();
            let (store, shelf) = (&cluster.store, &self.resource.shelf);
            (store.since(shelf, self.cursor, BATCH), store.version(), store.closings(shelf))
        };
        let Ok((events, reached)) = since else {
            self.expire(current);
            return false;
        };
        for event in &events {
            if let Some(line) = self.line_of(event) {
                self.ready.push_back(line);
            }
        }
        self.cursor = reached;
        let more = events.len() == BATCH;
        // The kind is no longer served, and this was the last of it.
        self.ended |= !more && closings != self.closings;
        more
    }

    /// Sleeps until there may be something to send or nothing will be any more.
    async fn wait(&mut self) {
        let shared = self.shared.clone();
        let last = self.last_bookmark.unwrap_or(self.deadline);
        // The end first: whoever changes something all the time must not put it off.
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => self.ended = true,
            () = tokio::time::sleep_until(self.deadline) => self.ended = true,
            // What is on now is looked at before the next line.
            () = self.faults.next() => {}
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark += BOOKMARK_EVERY;
                self.remember();
            }
            () = tokio::time::sleep_until(last), if self.bookmarks && self.last_bookmark.is_some() => {
                self.last_bookmark = None;
                self.remember();
            }
            () = self.changed.heard() => {}
        }
    }

    /// A bookmark, after everything that happened before it.
    fn remember(&mut self) {
        while self.gather() {}
        if !self.ended {
            let line = self.bookmark(false);
            self.ready.push_back(line);
        }
    }

    /// What this watcher gets of an event. An object that leaves the selection is gone for it,
    /// as it was when it still belonged.
    fn line_of(&mut self, event: &Event) -> Option<Bytes> {
        let here = |object: &Arc<Object>| {
            self.namespace.as_deref().is_none_or(|name| crate::meta::text(&object.value, "namespace") == name)
                && self.selector.matches(&object.value)
        };
        let before = event.previous.as_ref().is_some_and(here);
        let after = event.change != Change::Deleted && here(&event.object);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.line(Change::Added, &event.object)),
            (true, true) => Some(self.line(Change::Modified, &event.object)),
            (true, false) if event.change == Change::Deleted => {
                Some(self.line(Change::Deleted, &event.object))
            }
            (true, false) => {
                let previous = event.previous.as_ref()?;
                let left = Arc::new(previous.at_version(event.version));
                Some(self.line(Change::Deleted, &left))
            }
        }
    }

    fn line(&mut self, change: Change, object: &Object) -> Bytes {
        let encoding = |form| Encoding { api_version: self.resource.api_version(), form };
        match self.presentation.form {
            Form::Object => {
                let resource = &self.resource;
                object.encoded(encoding(EncodingForm::Line(change)), |_| {
                    wrap(change.as_str(), &respond::object_bytes_uncached(resource, object))
                })
            }
            Form::Metadata => object.encoded(encoding(EncodingForm::MetadataLine(change)), |stored| {
                wrap(change.as_str(), &respond::serialize(&respond::partial(stored)))
            }),
            Form::Table => {
                let rows = vec![row(&self.resource, &object.value, self.presentation.include, &self.clock)];
                let headers = !std::mem::replace(&mut self.headers_sent, true);
                let table = table(&self.resource, rows, &object.version.to_string(), headers);
                wrap(change.as_str(), &respond::serialize(&table))
            }
        }
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": self.cursor.to_string(), "creationTimestamp": null });
        if initial_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.presentation.form {
            Form::Object => {
                json!({ "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata })
            }
            Form::Metadata => {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
            }
            Form::Table => {
                let row = json!({ "cells": [], "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata } });
                table(&self.resource, vec![row], &self.cursor.to_string(), false)
            }
        };
        wrap("BOOKMARK", &respond::serialize(&object))
    }

    fn expire(&mut self, current: u64) {
        let error = ApiError::expired(format!("too old resource version: {} ({current})", self.cursor));
        self.ready.push_back(wrap("ERROR", &respond::serialize(&error.to_value())));
        self.initial.clear();
        self.mark_initial_end = false;
        self.ended = true;
    }
}

fn wrap(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
