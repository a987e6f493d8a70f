//! Lists of objects as they are, whatever their kind: what is made of them is up to others.

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;

/// Objects of a page.
const PAGE: u32 = 500;

/// What a list gave.
#[derive(Debug)]
pub(crate) enum Listed {
    /// All objects.
    Objects(Vec<Value>),
    /// There is no such kind.
    Missing,
    /// It may not be read, in the server's words.
    Forbidden(String),
}

/// One page, as far as it is read.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: Continue,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct Continue {
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// All objects at a path, page by page.
pub(crate) async fn list(client: &Client, path: &str, mut params: ListParams) -> kube::Result<Listed> {
    let mut objects = Vec::new();
    params = params.limit(PAGE);
    loop {
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        let page: Page = match client.request(request).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Listed::Missing),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Ok(Listed::Forbidden(status.message.clone()));
            }
            Err(error) => return Err(error),
        };
        objects.extend(page.items);
        params.continue_token = page.metadata.token.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(Listed::Objects(objects));
        }
    }
}
