//! A tar archive in gzip, written as its files come.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// What tar counts in.
const BLOCK: usize = 512;

/// An archive whose files are all below one folder.
pub(super) struct Archive<W: Write> {
    out: GzEncoder<W>,
    folder: String,
    /// The time that all files have, in seconds since 1970.
    time: u64,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W, folder: &str, time: u64) -> Self {
        Self { out: GzEncoder::new(out, Compression::default()), folder: folder.into(), time }
    }

    /// Adds a file. Its path is made of names that [`file_name`] gives.
    pub(super) fn add(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let path = format!("{}/{path}", self.folder);
        self.out.write_all(&header(&path, content.len() as u64, self.time)?)?;
        self.out.write_all(content)?;
        self.out.write_all(&vec![0; content.len().next_multiple_of(BLOCK) - content.len()])
    }

    /// Writes the end.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.finish()
    }
}

/// The header of a file, in POSIX' form of 1988: numbers in octal digits, a path of two parts.
fn header(path: &str, length: u64, time: u64) -> io::Result<[u8; BLOCK]> {
    let (prefix, name) =
        split(path).ok_or_else(|| io::Error::other(format!("the path is too long: {path}")))?;
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{length:011o}\0").as_bytes());
    put(136, format!("{time:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// A path as a part of at most 155 bytes and one of at most 100.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let mut places = path.match_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..]));
    places.find(|(prefix, name)| prefix.len() <= 155 && (1..=100).contains(&name.len()))
}

/// A name as one of a file: short, and of harmless letters only.
pub(super) fn file_name(name: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let dotted = |(at, c): (usize, char)| if c == '.' && at > 0 { c } else { harmless(c) };
    let short: String = name.chars().take(60).enumerate().map(dotted).collect();
    if short.is_empty() { "_".into() } else { short }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tar_reads_what_was_written() {
        let mut archive = Archive::new(Vec::new(), "folder", 1_700_000_000);
        let long = format!("{}/{}", "d".repeat(60), "f".repeat(60));
        archive.add("a.txt", b"hello\n").expect("added");
        archive.add(&long, &[b'x'; 1024]).expect("added");
        archive.add("empty", b"").expect("added");
        let bytes = archive.finish().expect("finished");
        let mut tar = Command::new("tar");
        let mut tar =
            tar.args(["-tzv"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("tar runs");
        tar.stdin.take().expect("piped").write_all(&bytes).expect("it reads");
        let listed = tar.wait_with_output().expect("it ends");
        assert!(listed.status.success());
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let sizes: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
        assert_eq!(sizes, ["6", "1024", "0"], "{listed}");
        assert!(listed.contains(&format!("folder/{long}")), "{listed}");
    }

    #[test]
    fn a_path_that_tar_cannot_hold_is_refused() {
        assert!(header(&"x".repeat(300), 0, 0).is_err());
    }

    proptest! {
        #[test]
        fn a_file_name_never_leads_elsewhere(name in "(?s).{0,80}") {
            let name = file_name(&name);
            prop_assert!((1..=60).contains(&name.len()) && !name.contains('/') && !name.starts_with('.'), "{name}");
        }
    }
}
