//! `causeway controller --config FILE`: what its flags can say, from one file.
//!
//! ```text
//! file ─▶ settings (key, line, values) ─▶ each tried as its flag ─┐
//! command line, environment ──────────────────────────────────────┴─▶ one command line, parsed as always ─▶ Args
//! ```
//!
//! So a value means the same in both places, a flag or its variable wins over the file, and what does not go together is found
//! wherever it was said.

mod read;

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use crate::clusters::plain;
use read::{Flag, Flags, Mistake, Setting, key_of, settings};

/// A file with more than this is no config.
const MOST: u64 = 1 << 20;
/// Flags that are about the process and not about its work.
const NOT_IN_A_FILE: [&str; 3] = ["config", "help", "version"];
/// The subcommand that has a config file.
const CONTROLLER: &str = "controller";

/// Why a file cannot be used: one line that names it, and the line or the key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl Refusal {
    /// In one line, and without what would move a terminal's cursor: a file may hold anything.
    fn new(path: &Path, what: &str) -> Self {
        let text = format!("--config {}: {what}", path.display());
        Self(crate::rules::text::plain(&text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file that was read, to say where something comes from.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    settings: Vec<Setting>,
    flags: Flags,
}

/// The command line with what a file says, where that was given; and the file.
pub(crate) fn completed(
    command: &Command,
    words: Vec<OsString>,
    matches: &ArgMatches,
) -> Result<(Vec<OsString>, Option<File>), Refusal> {
    let Some((CONTROLLER, given)) = matches.subcommand() else { return Ok((words, None)) };
    let Some(path) = given.get_one::<PathBuf>("config") else { return Ok((words, None)) };
    let file = File::read(path, command)?;
    let said = file.settings.iter().filter(|setting| {
        let flag = file.flags.get(&setting.key);
        !flag.is_some_and(|flag| is_said_otherwise(given, &flag.id))
    });
    let said: Vec<OsString> = said.flat_map(|setting| file.words(setting)).map(OsString::from).collect();
    // Behind the subcommand, and before what people typed.
    let (head, tail) = words.split_at(words.len().min(2));
    Ok((head.iter().chain(&said).chain(tail).cloned().collect(), Some(file)))
}

/// Whether a flag was given, or its variable.
fn is_said_otherwise(given: &ArgMatches, id: &str) -> bool {
    matches!(given.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// The flags that a file can say, by their keys.
fn flags_of(command: &Command) -> Flags {
    let controller = command.find_subcommand(CONTROLLER);
    let arguments = controller.into_iter().flat_map(Command::get_arguments).filter(|arg| !arg.is_hide_set());
    let flag = |arg: &clap::Arg| {
        let long = arg.get_long().filter(|long| !NOT_IN_A_FILE.contains(long))?;
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        Some((key_of(long), Flag { id: arg.get_id().to_string(), long: long.into(), is_list }))
    };
    arguments.filter_map(flag).collect()
}

impl File {
    fn read(path: &Path, command: &Command) -> Result<Self, Refusal> {
        let refuse = |what: String| Refusal::new(path, &what);
        let text = text_of(path).map_err(refuse)?;
        let mut built = command.clone();
        built.build();
        let flags = flags_of(&built);
        let at = |Mistake { line, what }: Mistake| {
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            refuse(format!("{line}{what}"))
        };
        let settings = settings(&text, &flags).map_err(at)?;
        let file = Self { path: path.to_owned(), settings, flags };
        for setting in &file.settings {
            let what = file.words(setting).find_map(|word| mistake(command, &word));
            if let Some(what) = what {
                let Setting { key, line, .. } = setting;
                return Err(refuse(format!("line {line}: {key}: {what}")));
            }
        }
        Ok(file)
    }

    /// A setting as it would be typed.
    fn words(&self, setting: &Setting) -> impl Iterator<Item = String> {
        let long = self.flags.get(&setting.key).map(|flag| flag.long.clone()).unwrap_or_default();
        setting.values.clone().into_iter().map(move |value| format!("--{long}={value}"))
    }

    /// What does not go together, in words in which each flag that the file says is named by its key and line.
    pub(crate) fn refuses(&self, what: &str) -> Refusal {
        let mut words = what.to_owned();
        // The longest first: one flag may begin like another.
        let mut said: Vec<&Setting> = self.settings.iter().collect();
        said.sort_by_key(|setting| std::cmp::Reverse(setting.key.len()));
        for Setting { key, line, .. } in said {
            let Some(flag) = self.flags.get(key) else { continue };
            words = words.replace(&format!("--{}", flag.long), &format!("{key} (line {line})"));
        }
        Refusal::new(&self.path, &words)
    }

    /// The same of what the parser of flags refuses.
    pub(crate) fn refuses_as(&self, error: &clap::Error) -> Refusal {
        self.refuses(&in_a_line(error))
    }
}

/// The text of a file, or why there is none.
fn text_of(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("it cannot be read: {}", plain(&error));
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MOST {
        return Err(format!("it is larger than {MOST} bytes, which no config is"));
    }
    String::from_utf8(bytes).map_err(|_| "it is no text in UTF-8".into())
}

/// What is wrong with a flag, taken alone; what else it needs is another matter.
fn mistake(command: &Command, word: &str) -> Option<String> {
    let error = command.clone().try_get_matches_from(["causeway", CONTROLLER, word]).err()?;
    match error.kind() {
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => None,
        ErrorKind::ValueValidation => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            Some(match (value_of(&error), source) {
                (Some(value), Some(why)) => format!("`{value}`: {why}"),
                (_, why) => why.unwrap_or_else(|| in_a_line(&error)),
            })
        }
        ErrorKind::InvalidValue => {
            let value = value_of(&error).filter(|value| !value.is_empty());
            let possible = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) => values.join(", "),
                _ => String::new(),
            };
            Some(match value {
                Some(value) if !possible.is_empty() => format!("`{value}` is none of: {possible}"),
                _ => "it has no value".into(),
            })
        }
        _ => Some(in_a_line(&error)),
    }
}

fn value_of(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidValue)? {
        ContextValue::String(value) => Some(value.clone()),
        _ => None,
    }
}

/// The parser's words without what it says to whoever typed.
fn in_a_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let told = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    told.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::*;
    use crate::Cli;

    fn keys() -> Vec<String> {
        let mut command = Cli::command();
        command.build();
        flags_of(&command).into_keys().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_key_says_the_file_is_taken_or_refused_in_one_line(
            key in proptest::sample::select(keys()), value in any::<String>(), rest in any::<Vec<u8>>(),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("config.yaml");
            let text = format!("{key}: {}\n", serde_json::to_string(&value).expect("text"));
            for bytes in [text.clone().into_bytes(), [text.into_bytes(), rest].concat()] {
                std::fs::write(&path, bytes).expect("written");
                if let Err(refusal) = File::read(&path, &Cli::command()) {
                    prop_assert_eq!(refusal.to_string().lines().count(), 1);
                }
            }
        }
    }
}
