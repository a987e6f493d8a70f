//! What form of answer a client wants.

use http::HeaderMap;
use http::header::ACCEPT;

use super::query::Query;
use crate::status::ApiError;
use crate::table::Include;

/// The forms objects can be answered in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// How a client wants objects shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presentation {
    pub(crate) form: Form,
    /// What comes along with a table's rows.
    pub(crate) include: Include,
}

impl Presentation {
    pub(crate) fn of(headers: &HeaderMap, query: &Query) -> Result<Presentation, ApiError> {
        Ok(Presentation { form: form(headers)?, include: Include::parse(query.text("includeObject"))? })
    }
}

struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    fn get(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    fn is_json(&self) -> bool {
        matches!(self.media, "application/json" | "application/*" | "*/*")
    }
}

fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let text = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    text.flat_map(|text| text.split(','))
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            Clause { media, parameters: parts.filter_map(|part| part.split_once('=')).collect() }
        })
        .filter(|clause| !clause.media.is_empty())
        .collect()
}

/// The first form asked for that can be given.
fn form(headers: &HeaderMap) -> Result<Form, ApiError> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Form::Object);
    }
    for clause in clauses.iter().filter(|clause| clause.is_json()) {
        match (clause.get("as"), clause.get("g"), clause.get("v")) {
            ("", ..) => return Ok(Form::Object),
            ("Table", "meta.k8s.io", "v1") => return Ok(Form::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                return Ok(Form::Metadata);
            }
            _ => {}
        }
    }
    Err(not_acceptable())
}

/// Whether aggregated discovery is asked for before the plain one. Who asks for neither gets the
/// plain one: documents that are not objects are given as JSON whatever is asked.
pub(crate) fn wants_aggregated(headers: &HeaderMap) -> bool {
    let asked = clauses(headers).into_iter().filter(Clause::is_json).find_map(|clause| {
        match (clause.get("as"), clause.get("g"), clause.get("v")) {
            ("", ..) => Some(false),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(true),
            _ => None,
        }
    });
    asked.unwrap_or(false)
}

fn not_acceptable() -> ApiError {
    ApiError::new(406, "NotAcceptable", "only the following media types are accepted: application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, http::HeaderValue::from_static(text))])
    }

    #[test]
    fn the_first_form_that_can_be_given_is_given() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(&accept(kubectl)).unwrap(), Form::Table);
        assert_eq!(form(&accept("application/vnd.kubernetes.protobuf, */*")).unwrap(), Form::Object);
        assert_eq!(
            form(&accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")).unwrap(),
            Form::Metadata
        );
        assert_eq!(form(&accept("application/vnd.kubernetes.protobuf")).unwrap_err().code, 406);
        assert_eq!(form(&HeaderMap::new()).unwrap(), Form::Object);
    }
}
