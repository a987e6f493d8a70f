//! A Deployment of a VPC's DNS server: where its route to kube-dns goes, what is there, and what should be done.

use std::collections::{BTreeMap, BTreeSet};

use super::annotation::{self, Entry, Routes};
use super::command;
use super::route::{Place, Record, Route};

/// How the name of an annotation with routes ends, after its provider.
pub const ROUTES: &str = ".kubernetes.io/routes";

/// A Deployment, as last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deployment {
    /// The version last seen: what a write is guarded by.
    pub resource_version: String,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// What we put there, if the record can be read.
    pub record: Option<Record>,
    /// Whether there is a record at all.
    pub has_record: bool,
    /// Whether its pods have a copy of the record: kube-ovn 1.12 gives them all that its Deployment is annotated with.
    pub has_copy: bool,
    /// The shell script of its init container `init-route`, if it has that container; or why there is no script.
    pub script: Option<Result<Script, String>>,
    /// The providers whose switch is the default subnet, by annotations of its pods.
    pub providers: BTreeSet<String>,
    /// Annotations of its pods with routes.
    pub routes: BTreeMap<String, Routes>,
}

/// The script of a container, among the words that it is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Which of a container's two lists they are.
    pub field: Field,
    /// All of them.
    pub words: Vec<String>,
    /// Which one is the script.
    pub at: usize,
}

/// A list of words that a container is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `command`.
    Command,
    /// `args`.
    Args,
}

impl Script {
    /// The script itself.
    pub fn text(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    /// All words with another script.
    pub fn with(&self, text: &str) -> Vec<String> {
        let other = |(at, word): (usize, &String)| if at == self.at { text.to_owned() } else { word.clone() };
        self.words.iter().enumerate().map(other).collect()
    }
}

/// What a Deployment should hold of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A route. What another operator left of that counts as ours, or not.
    Route(Route, Inherited),
    /// Nothing.
    Nothing,
    /// Whatever it holds: what it should be is not known at the moment.
    AsItIs,
}

/// Whose a route is that stands at the end of the script and that no record speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherited {
    /// That of another operator, in whose place we are.
    Ours,
    /// Somebody's.
    Theirs,
}

/// Why a Deployment cannot hold what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// It has neither of the two forms.
    Shape(String),
    /// It has another route to the same address.
    Taken(String),
}

/// A change of a Deployment, and nothing else of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The script that its init container should have.
    pub script: Option<String>,
    /// Annotations that its pods should have, or not have.
    pub annotations: BTreeMap<String, Option<String>>,
    /// The record that it should have, or not have.
    pub record: Option<Option<Record>>,
    /// Whether the copy of a record should go from its pods.
    pub drop_copy: bool,
}

/// What should be done about a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What to change, if anything.
    pub edit: Option<Edit>,
    /// What is in the way.
    pub obstacle: Option<Obstacle>,
    /// Whether the route that it should have is there, and is not ours.
    pub is_theirs: bool,
}

/// The texts that a route can stand in, as they should become.
#[derive(Clone)]
struct Texts {
    script: Option<String>,
    routes: BTreeMap<String, Option<String>>,
}

/// What follows from a Deployment and what it should hold. `provider` is that of kube-ovn's configuration, for one that does
/// not say by itself.
pub fn plan(have: &Deployment, want: Want, provider: Option<&str>) -> Plan {
    let nothing = Plan { edit: None, obstacle: None, is_theirs: false };
    if have.deleting || want == Want::AsItIs {
        return nothing;
    }
    let before = Texts::of(have);
    let mut after = before.clone();
    let place = place(have, provider);
    let is_kept = |record: &&Record| {
        matches!(want, Want::Route(route, _) if record.route == route) && place.as_ref() == Ok(&record.place)
    };
    let standing = have.record.as_ref().filter(|record| before.clone().take(record));
    let kept = standing.filter(is_kept);
    let taken = standing.filter(|record| kept.is_none() && after.take(record));
    let put = match want {
        Want::Route(..) if kept.is_some() => Ok(kept.cloned().map(Put::Ours)),
        Want::Route(route, inherited) => {
            let put = place.map_err(Obstacle::Shape).and_then(|place| match place {
                Place::Command => after.put_command(route, inherited),
                Place::Annotation(key) => {
                    after.put_annotation(key.clone(), &entries(have, &key, taken)?, route)
                }
            });
            put.map(Some)
        }
        Want::Nothing | Want::AsItIs => Ok(None),
    };
    let record = match &put {
        Ok(Some(Put::Ours(record))) => Some(record.clone()),
        Ok(Some(Put::Theirs) | None) | Err(_) => None,
    };
    let edit = edit(have, &before, &after, record);
    Plan { edit, is_theirs: matches!(put, Ok(Some(Put::Theirs))), obstacle: put.err() }
}

/// What differs, if anything.
fn edit(have: &Deployment, before: &Texts, after: &Texts, record: Option<Record>) -> Option<Edit> {
    let annotations = after.routes.iter().filter(|(key, text)| before.routes.get(*key) != Some(text));
    let is_noted = have.has_record == record.is_some() && have.record == record;
    let edit = Edit {
        script: after.script.clone().filter(|_| after.script != before.script),
        annotations: annotations.map(|(key, text)| (key.clone(), text.clone())).collect(),
        record: (!is_noted).then_some(record),
        drop_copy: have.has_copy,
    };
    (edit != Edit::default()).then_some(edit)
}

/// Where a route goes; why nowhere.
fn place(have: &Deployment, provider: Option<&str>) -> Result<Place, String> {
    if let Some(script) = &have.script {
        return script.as_ref().map(|_| Place::Command).map_err(Clone::clone);
    }
    // The link of the pods' own network is no way out of the VPC, so it comes last.
    let others = have.providers.iter().map(String::as_str).filter(|provider| *provider != "ovn");
    let own = have.providers.iter().map(String::as_str).filter(|provider| *provider == "ovn");
    let provider = others.chain(provider).chain(own).next();
    provider.map(|provider| Place::Annotation(format!("{provider}{ROUTES}"))).ok_or_else(|| {
        "it has no init container init-route, none of its pods' annotations says which network is the default subnet's \
         (PROVIDER.kubernetes.io/logical_switch: ovn-default), nor does nad-provider in ConfigMap vpc-dns-config"
            .into()
    })
}

/// What an annotation's list has, apart from what was taken away.
fn entries(have: &Deployment, key: &str, taken: Option<&Record>) -> Result<Vec<Entry>, Obstacle> {
    let mut entries = match have.routes.get(key) {
        Some(Routes::Unreadable(why)) => {
            return Err(Obstacle::Shape(format!("annotation {key} of its pods is no list of routes: {why}")));
        }
        Some(Routes::List { entries, .. }) => entries.clone(),
        None => Vec::new(),
    };
    let is_taken = |entry: &Entry, record: &Record| {
        matches!(&record.place, Place::Annotation(place) if place == key)
            && entry.leads_to(record.route.to)
            && entry.gw == record.route.via.to_string()
    };
    let taken = taken.and_then(|record| entries.iter().position(|entry| is_taken(entry, record)));
    taken.map(|at| entries.remove(at));
    Ok(entries)
}

/// How a route came to stand there.
enum Put {
    /// By us.
    Ours(Record),
    /// Without us.
    Theirs,
}

impl Texts {
    fn of(have: &Deployment) -> Self {
        let routes = have.routes.iter().filter_map(|(key, routes)| match routes {
            Routes::List { text, .. } => Some((key.clone(), Some(text.clone()))),
            Routes::Unreadable(_) => None,
        });
        let script = have.script.as_ref().and_then(|script| script.as_ref().ok());
        Self { script: script.map(|it| it.text().to_owned()), routes: routes.collect() }
    }

    /// Takes away what a record speaks of; whether it stood there.
    fn take(&mut self, record: &Record) -> bool {
        match &record.place {
            Place::Command => {
                let rest = self.script.as_deref().and_then(|script| command::take(script, &record.splice));
                let stood = rest.is_some();
                self.script = rest.or_else(|| self.script.take());
                stood
            }
            Place::Annotation(key) => {
                let text = self.routes.get(key).cloned().flatten();
                let Some(rest) = text.and_then(|text| annotation::take(&text, &record.splice)) else {
                    return false;
                };
                let is_empty = rest.split_whitespace().collect::<String>() == "[]";
                self.routes.insert(key.clone(), (!(record.made && is_empty)).then_some(rest));
                true
            }
        }
    }

    fn put_command(&mut self, route: Route, inherited: Inherited) -> Result<Put, Obstacle> {
        let script = self.script.clone().unwrap_or_default();
        let record = |splice| Put::Ours(Record { place: Place::Command, route, splice, made: false });
        if let Some(found) = command::find(&script, route.to) {
            let statement = command::statement(route);
            if inherited == Inherited::Ours
                && let Some(before) = script.strip_suffix(&statement)
                && command::find(before, route.to).is_none()
            {
                let (before, after) = (before.to_owned(), String::new());
                return Ok(record(super::route::Splice { before, added: statement, after }));
            }
            if found.is(route) {
                return Ok(Put::Theirs);
            }
            let via = found.via.unwrap_or_else(|| "nobody".into());
            return Err(Obstacle::Taken(format!(
                "the script of its init container init-route has a route to {} through {via}, where {} is needed",
                route.to, route.via
            )));
        }
        let splice = command::put(&script, route);
        self.script = Some(splice.text());
        Ok(record(splice))
    }

    fn put_annotation(&mut self, key: String, entries: &[Entry], route: Route) -> Result<Put, Obstacle> {
        let text = self.routes.get(&key).cloned().flatten();
        if let Some(found) = entries.iter().find(|it| it.leads_to(route.to)) {
            if found.gw == route.via.to_string() {
                return Ok(Put::Theirs);
            }
            return Err(Obstacle::Taken(format!(
                "annotation {key} of its pods has a route to {} through {}, where {} is needed",
                route.to, found.gw, route.via
            )));
        }
        let made = text.is_none();
        let Some(splice) = annotation::put(text.as_deref(), route) else {
            return Err(Obstacle::Shape(format!("annotation {key} of its pods is no list of routes")));
        };
        let place = Place::Annotation(key.clone());
        self.routes.insert(key, Some(splice.text()));
        Ok(Put::Ours(Record { place, route, splice, made }))
    }
}
