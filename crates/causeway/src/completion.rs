//! `causeway completion`: scripts that make a shell complete this command's words.

use std::io::Write;

use clap::{Command, ValueEnum};
use clap_complete::Generator;
use clap_complete::shells;

/// Print what makes a shell complete this command's words.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn print(args: &Args, mut command: Command) -> std::io::Result<()> {
    command.set_bin_name("causeway");
    command.build();
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => shells::Bash.try_generate(&command, &mut script)?,
        Shell::Zsh => shells::Zsh.try_generate(&command, &mut script)?,
        Shell::Fish => shells::Fish.try_generate(&command, &mut script)?,
    }
    std::io::stdout().write_all(&script)
}
