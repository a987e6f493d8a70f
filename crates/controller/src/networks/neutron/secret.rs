//! What must never be read by anybody: passwords, secrets, tokens.

use std::fmt;

/// A text that prints as `…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Shorter ones occur in any text by chance: to cut them out would protect nothing and leave nothing to read.
const SHORTEST: usize = 4;

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one request that it is made for.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// A text without this one in it. Whoever answers may repeat what he was sent, as it was or in the spelling of
    /// JSON or of an address.
    pub(super) fn cut_out_of(&self, text: &str) -> String {
        if self.0.len() < SHORTEST {
            return text.to_owned();
        }
        let json = serde_json::Value::from(self.0.as_str()).to_string();
        let spellings = [self.0.as_str(), json.trim_matches('"'), &super::http::encoded(&self.0)];
        spellings.iter().fold(text.to_owned(), |text, spelling| text.replace(spelling, "…"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("open sesame");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "… … Some(…)");
    }

    #[test]
    fn a_secret_is_cut_out_of_others_words_in_every_spelling() {
        let secret = Secret::new("a\"b/c d");
        let text = r#"you said a"b/c d, that is "a\"b/c d" or a%22b%2Fc%20d"#;
        assert_eq!(secret.cut_out_of(text), r#"you said …, that is "…" or …"#);
        assert_eq!(Secret::new("a").cut_out_of("a cat"), "a cat");
    }
}
