//! Conditions as every object of ours carries them: what is true, why, and since when.
//!
//! An object's conditions belong to many. We set and remove our own by type; everybody else's are carried
//! through as they were, in their order, so that writing the list back loses none of them.

use std::fmt;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It does.
    True,
    /// It does not.
    False,
    /// It is not known.
    Unknown,
}

impl Truth {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// As Kubernetes spells it; any other text means unknown.
impl From<&str> for Truth {
    fn from(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// Whether it holds.
    pub status: Truth,
    /// Why, in CamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// The generation it is about.
    pub observed_generation: Option<i64>,
    /// When `status` last changed, in seconds since 1970; none when it changes with the next write.
    pub since: Option<i64>,
}

impl Condition {
    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == Truth::True
    }
}

/// The conditions of an object, ours and others', in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// The condition of a type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Whether there is one of a type and it holds.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(Condition::is_true)
    }

    /// Sets one, in its place if there is one. Since when it has its status is kept while that does not change.
    pub fn set(
        &mut self,
        kind: &str,
        status: impl Into<Truth>,
        reason: &str,
        message: String,
        generation: i64,
    ) {
        let status = status.into();
        let since = self.get(kind).filter(|before| before.status == status).and_then(|before| before.since);
        let condition = Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message,
            observed_generation: Some(generation),
            since,
        };
        match self.0.iter_mut().find(|before| before.kind == kind) {
            Some(before) => *before = condition,
            None => self.0.push(condition),
        }
    }

    /// Removes one.
    pub fn remove(&mut self, kind: &str) {
        self.0.retain(|condition| condition.kind != kind);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }
}

impl FromIterator<Condition> for Conditions {
    fn from_iter<I: IntoIterator<Item = Condition>>(conditions: I) -> Self {
        Self(conditions.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(kind: &str) -> Condition {
        Condition {
            kind: kind.into(),
            status: Truth::Unknown,
            reason: "Theirs".into(),
            message: String::new(),
            observed_generation: None,
            since: Some(7),
        }
    }

    #[test]
    fn others_conditions_stay_as_they_were_and_where_they_were() {
        let mut conditions: Conditions =
            [foreign("Audited"), foreign("Ready"), foreign("Billed")].into_iter().collect();
        conditions.set("Ready", true, "Up", "it works".into(), 3);
        conditions.set("Routed", false, "NoRoute", "it does not".into(), 3);
        let kinds: Vec<&str> = conditions.iter().map(|condition| condition.kind.as_str()).collect();
        assert_eq!(kinds, ["Audited", "Ready", "Billed", "Routed"]);
        assert_eq!(conditions.get("Audited"), Some(&foreign("Audited")));
        conditions.remove("Ready");
        assert_eq!(conditions.get("Billed"), Some(&foreign("Billed")));
        assert_eq!(conditions.get("Ready"), None);
    }

    #[test]
    fn since_when_is_kept_until_the_status_changes() {
        let mut conditions: Conditions =
            [Condition { status: Truth::True, ..foreign("Ready") }].into_iter().collect();
        conditions.set("Ready", true, "Other", "another sentence".into(), 4);
        let ready = conditions.get("Ready").expect("it was set");
        assert_eq!(
            (ready.since, ready.observed_generation, ready.reason.as_str()),
            (Some(7), Some(4), "Other")
        );
        conditions.set("Ready", false, "Down", "no more".into(), 4);
        assert_eq!(conditions.get("Ready").and_then(|ready| ready.since), None, "it changes with this write");
        conditions.set("Ready", Truth::Unknown, "Lost", "who knows".into(), 4);
        assert_eq!(conditions.get("Ready").map(|ready| ready.status.as_str()), Some("Unknown"));
    }
}
