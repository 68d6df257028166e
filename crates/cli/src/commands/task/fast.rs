//! The command lines of hooks and publishes, read without the argument parser.
//!
//! It knows the spellings that installed hooks use and answers `None` to everything else, which the real parser then
//! accepts or explains. A test holds the two together.

use std::ffi::OsString;
use std::path::PathBuf;

use super::hook::{HookArgs, OnErrorArg};
use super::publish::PublishArgs;

/// A command line that was read. Apart from the parser's enum of all commands, whose size alone would cost the hook a
/// page or two of stack.
#[derive(Debug)]
pub(super) enum Fast {
    Hook(HookArgs),
    Publish(PublishArgs),
}

pub(super) fn parse(words: &[OsString]) -> Option<Fast> {
    let (verb, rest) = words.split_first()?;
    match verb.to_str()? {
        "hook" => parse_hook(rest).map(Fast::Hook),
        "publish" => parse_publish(rest).map(Fast::Publish),
        _ => None,
    }
}

fn parse_hook(words: &[OsString]) -> Option<HookArgs> {
    let mut args = HookArgs::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str()? {
            "--agent" if args.agent.is_none() => args.agent = Some(words.next()?.to_str()?.parse().ok()?),
            "--root" if args.root.is_none() => args.root = Some(path(words.next()?)?),
            "--on-error" if args.on_error == OnErrorArg::default() => {
                args.on_error = match words.next()?.to_str()? {
                    "open" => OnErrorArg::Open,
                    _ => return None,
                };
            }
            "--compat-exit2" if !args.compat_exit2 => args.compat_exit2 = true,
            "--mcp" if !args.mcp => args.mcp = true,
            _ => return None,
        }
    }
    Some(args)
}

fn parse_publish(words: &[OsString]) -> Option<PublishArgs> {
    let mut args = PublishArgs::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str()? {
            "--agent" if args.agent.is_none() => args.agent = Some(words.next()?.to_str()?.parse().ok()?),
            "--root" if args.root.is_none() => args.root = Some(path(words.next()?)?),
            _ => return None,
        }
    }
    Some(args)
}

/// A value that could be meant as an option is left to the parser.
fn path(word: &OsString) -> Option<PathBuf> {
    let starts_like_an_option = word.as_encoded_bytes().first().is_none_or(|byte| *byte == b'-');
    (!starts_like_an_option).then(|| PathBuf::from(word))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::task::TaskCli;

    #[test]
    fn the_fast_reader_agrees_with_the_parser() {
        let options: [&[&str]; 9] = [
            &["--agent", "codex"],
            &["--agent", "nobody"],
            &["--agent"],
            &["--root", "/r"],
            &["--root", "--mcp"],
            &["--on-error", "open"],
            &["--on-error", "block"],
            &["--compat-exit2"],
            &["--mcp"],
        ];
        let mut known = 0;
        for verb in ["hook", "publish"] {
            for first in &options {
                for second in &options {
                    let words: Vec<OsString> =
                        [&[verb], *first, *second].concat().into_iter().map(OsString::from).collect();
                    let slow = TaskCli::try_parse_from(std::iter::once(OsString::from("task")).chain(words.clone()));
                    if let Some(fast) = parse(&words) {
                        known += 1;
                        let slow = slow.unwrap_or_else(|error| panic!("{words:?}: {error}"));
                        assert_eq!(format!("{fast:?}"), format!("{:?}", slow.command), "{words:?}");
                    }
                }
            }
        }
        assert!(known > 20, "the common spellings are known: {known}");
    }
}
