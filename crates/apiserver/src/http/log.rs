//! `pods/log`: what a pod has written so far. It does not go on while somebody listens: `follow` ends at once.

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::Call;
use super::exec::container;
use crate::status::ApiError;

pub(super) async fn log(call: &Call) -> Result<Response, ApiError> {
    let target = call.target();
    let pod = call.shared.read().get(&target)?.clone();
    let (namespace, name) = (&target.key.namespace, &target.key.name);
    container(&pod.value, name, call.query.text("container"))?;
    let most = call.query.number("tailLines")?;
    let most =
        most.map(|lines| usize::try_from(lines).map_err(|_| ApiError::bad_request("tailLines is negative")));
    let text = match &call.shared.exec {
        Some(exec) => exec.log(namespace, name).await,
        None => String::new(),
    };
    let mut response = Response::new(Body::from(tail(&text, most.transpose()?).to_owned()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The last lines of a text.
fn tail(text: &str, most: Option<usize>) -> &str {
    let Some(most) = most else { return text };
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let starts: Vec<usize> = std::iter::once(0).chain(ends).filter(|at| *at < text.len()).collect();
    let first = starts.len().saturating_sub(most);
    starts.get(first).map_or("", |at| &text[*at..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::tail;

    #[test]
    fn the_last_lines_are_whole_ones() {
        for (text, most, left) in [
            ("a\nb\nc\n", None, "a\nb\nc\n"),
            ("a\nb\nc\n", Some(2), "b\nc\n"),
            ("a\nb\nc", Some(1), "c"),
            ("a\n", Some(9), "a\n"),
            ("a\n", Some(0), ""),
            ("", Some(1), ""),
        ] {
            assert_eq!(tail(text, most), left, "{most:?} of {text:?}");
        }
    }

    proptest! {
        #[test]
        fn there_are_as_many_as_asked_for_and_they_are_the_last(text in "[a\n]{0,20}", most in 0..9usize) {
            let left = tail(&text, Some(most));
            prop_assert!(text.ends_with(left));
            prop_assert_eq!(left.lines().count(), text.lines().count().min(most));
        }
    }
}
