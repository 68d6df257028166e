//! Settings of users, generated: installing and uninstalling leaves not one byte changed (section 8).

use pintle_pointer::install::{Change, Dialect, Dirs, Edited, Host, JsonDoc, Origin, Presence, Setup, Step, Target};
use pintle_pointer::{Agent, Shell};
use proptest::prelude::*;

fn targets() -> Vec<Target> {
    let dirs = Dirs { home: "/home/u".into(), ..Dirs::default() };
    let setup = |agent: Agent| Setup {
        agent,
        program: "/opt/my tools/pintle".into(),
        shell: Shell::Posix,
        exec_form: agent == Agent::Claude,
        strict: false,
        mcp: true,
        rules: true,
    };
    Host::ALL.iter().flat_map(|host| setup(host.agent()).targets(&dirs)).collect()
}

/// What a file is made of. Numbers choose the layout, so that every failure can be told again.
#[derive(Clone, Debug)]
enum Part {
    Text(&'static str),
    List(Vec<Self>),
    Map(Vec<(&'static str, Self)>),
}

fn scalars(dialect: Dialect) -> Vec<&'static str> {
    let mut all =
        vec!["1", "-0.5e3", "true", "null", "\"x\"", "\"\"", "\"a\\\"b\\\\\"", "\"\u{65e5} // \\u00e9 /* {[\""];
    all.extend(dialect.lone_surrogates.then_some("\"\\ud800x\""));
    all.extend(dialect.huge_numbers.then_some("1e400"));
    all
}

/// Any value; its maps have names of nobody.
fn values(dialect: Dialect) -> impl Strategy<Value = Part> {
    let scalar = prop::sample::select(scalars(dialect)).prop_map(Part::Text);
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Part::List),
            prop::collection::vec((prop::sample::select(vec!["x", "y", "\u{fc}", ""]), inner), 0..3)
                .prop_map(Part::Map),
        ]
    })
}

/// What may stand under an event before we come: nothing, nobody's, an empty group, somebody's.
fn event() -> impl Strategy<Value = Part> {
    let handler = || Part::Map(vec![("type", Part::Text("\"command\"")), ("command", Part::Text("\"mine\""))]);
    let group = move |handlers: Vec<Part>| Part::Map(vec![("hooks", Part::List(handlers))]);
    prop_oneof![
        Just(Part::List(vec![])),
        Just(Part::List(vec![group(vec![])])),
        Just(Part::List(vec![group(vec![handler()])])),
        Just(Part::List(vec![group(vec![]), group(vec![handler(), handler()])])),
        Just(Part::List(vec![handler()])),
    ]
}

fn files(target: &Target) -> BoxedStrategy<(Part, Vec<u8>)> {
    let dialect = Dialect::of(target.agent, target.role);
    let events: Vec<&'static str> = target
        .changes
        .iter()
        .filter_map(|change| if let Change::Hook { event, .. } = change { Some(*event) } else { None })
        .chain(["Other"])
        .collect();
    let hooks = prop::collection::btree_map(prop::sample::select(events), event(), 0..4)
        .prop_map(|events| Part::Map(events.into_iter().collect()));
    let hooks = prop::option::weighted(0.7, hooks).prop_map(|hooks| hooks.map(|hooks| ("hooks", hooks)));
    let small = |names: &'static [&'static str]| {
        let empty = prop_oneof![
            Just(Part::Map(vec![])),
            Just(Part::List(vec![])),
            Just(Part::List(vec![Part::Text("\"Bash(ls)\"")])),
        ];
        prop::collection::btree_map(prop::sample::select(names), empty, 0..3)
    };
    let lists = (small(&["allow", "deny"]), small(&["mine", "other"])).prop_map(|(permissions, servers)| {
        let only = |members: std::collections::BTreeMap<_, _>, list: bool| {
            let right = |part: &Part| matches!(part, Part::List(_)) == list;
            Part::Map(members.into_iter().filter(|(_, part)| right(part)).collect())
        };
        vec![
            ("permissions", only(permissions, true)),
            ("mcpServers", only(servers.clone(), false)),
            ("mcp", only(servers, false)),
        ]
    });
    let names = if dialect.root.is_empty() { vec!["a", "z", "\u{fc}", "version"] } else { vec!["description"] };
    let others = prop::collection::btree_map(prop::sample::select(names), values(dialect), 0..4);
    let restricted = !dialect.root.is_empty();
    (hooks, lists, others, any::<bool>(), prop::collection::vec(any::<u8>(), 24))
        .prop_map(move |(hooks, lists, others, first, noise)| {
            let mut members: Vec<(&'static str, Part)> = others.into_iter().collect();
            members.extend(lists.into_iter().filter(|(_, part)| {
                // Half of them, by whether they hold anything.
                !restricted && (noise[0] % 2 == 0 || matches!(part, Part::Map(inner) if !inner.is_empty()))
            }));
            if let Some(hooks) = hooks {
                members.insert(if first { 0 } else { members.len() }, hooks);
            }
            (Part::Map(members), noise)
        })
        .boxed()
}

/// Writes a file in a layout that the noise chooses, within what the agent takes.
struct Writer<'a> {
    dialect: Dialect,
    noise: &'a [u8],
    at: usize,
    newline: &'static str,
    indent: &'static str,
    one_line: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn file(part: &Part, noise: &'a [u8], dialect: Dialect) -> Vec<u8> {
        let newline = if noise[1].is_multiple_of(3) { "\r\n" } else { "\n" };
        let indent = ["  ", "\t", "    ", ""][usize::from(noise[2] % 4)];
        let one_line = noise[3].is_multiple_of(4);
        let mut writer = Self { dialect, noise, at: 0, newline, indent, one_line, out: String::new() };
        writer.part(part, 0);
        let end = ["", newline, "\n\n\n", " "][usize::from(noise[4] % 4)];
        let mark = if dialect.byte_order_mark && noise[5].is_multiple_of(3) { "\u{feff}" } else { "" };
        format!("{mark}{}{end}", writer.out).into_bytes()
    }

    fn roll(&mut self, of: u8) -> u8 {
        self.at += 1;
        (self.noise[self.at % self.noise.len()] ^ (self.at % 251) as u8) % of
    }

    fn part(&mut self, part: &Part, depth: usize) {
        let (open, close, parts): (_, _, Vec<(Option<&str>, &Part)>) = match part {
            Part::Text(text) => return self.out.push_str(text),
            Part::List(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
            Part::Map(members) => ('{', '}', members.iter().map(|(name, part)| (Some(*name), part)).collect()),
        };
        self.out.push(open);
        let count = parts.len();
        let spread = !self.one_line && self.roll(5) != 0;
        for (index, (name, part)) in parts.into_iter().enumerate() {
            self.break_line(spread, depth + 1);
            if let Some(name) = name {
                let colon = [":", ": ", " : "][usize::from(self.roll(3))];
                self.out.push_str(&format!("\"{name}\"{colon}"));
            }
            self.part(part, depth + 1);
            if index + 1 < count || (self.dialect.trailing_commas && self.roll(4) == 0) {
                self.out.push(',');
            }
            self.comment();
        }
        if count > 0 {
            self.break_line(spread, depth);
        } else if self.roll(4) == 0 {
            self.out.push(' ');
        } else if self.roll(4) == 0 {
            self.comment();
        }
        self.out.push(close);
    }

    fn break_line(&mut self, spread: bool, depth: usize) {
        if spread {
            self.out.push_str(self.newline);
            self.out.push_str(&self.indent.repeat(depth));
        } else if self.roll(3) == 0 {
            self.out.push(' ');
        }
    }

    fn comment(&mut self) {
        if self.dialect.comments {
            let line = format!(" // \"of\" a: {{,}}{}", self.newline);
            let comment = ["", "", "", " /* of a, \" */", &line][usize::from(self.roll(5))].to_owned();
            self.out.push_str(&comment);
        }
    }
}

fn bytes(edited: Result<Edited, pintle_pointer::install::EditError>) -> Vec<u8> {
    edited.expect("edits").bytes.expect("something is left")
}

/// Installs twice, looks, uninstalls.
fn there_and_back(target: &Target, before: &[u8]) -> Result<Vec<u8>, TestCaseError> {
    let shown = String::from_utf8_lossy(before).into_owned();
    let installed = bytes(target.install(Some(before)));
    prop_assert_ne!(&installed, before, "{}", shown);
    prop_assert_eq!(&bytes(target.install(Some(&installed))), &installed, "twice is once: {}", shown);
    prop_assert_eq!(target.presence(Some(&installed)), Ok(Presence::Present), "{}", shown);
    let back = bytes(target.uninstall(&installed, Origin::Content(before)));
    prop_assert_eq!(String::from_utf8_lossy(&back), shown, "{}", target.path.display());
    Ok(installed)
}

/// The same edit of a user's, before and after ours: what is left without ours is the edited file, member by member.
fn a_users_edit_survives(target: &Target, before: &[u8], installed: &[u8]) -> Result<(), TestCaseError> {
    let dialect = Dialect::of(target.agent, target.role);
    let edit = |bytes: &[u8]| -> Vec<u8> {
        let mut doc = JsonDoc::parse(bytes, dialect).expect("parses");
        let path: &[&str] = if dialect.root.is_empty() { &["since"] } else { &["hooks", "Since"] };
        doc.push(path, &pintle_pointer::install::Json::text("edited")).expect("edits");
        doc.to_bytes()
    };
    let value = |bytes: &[u8]| {
        let mut doc = JsonDoc::parse(bytes, dialect).expect("parses");
        // Which the format asks for, and which stays.
        if target.changes.iter().any(|change| matches!(change, Change::Header { .. })) {
            doc.remove(&[Step::Member("version")]).expect("removes");
        }
        doc.value(&[])
    };
    let left = bytes(target.uninstall(&edit(installed), Origin::Content(before)));
    prop_assert_eq!(value(&left), value(&edit(before)), "{}", String::from_utf8_lossy(&edit(installed)));
    Ok(())
}

fn json_targets() -> Vec<Target> {
    let is_json = |target: &Target| {
        let json = |change: &Change| {
            matches!(change, Change::Hook { .. } | Change::Member { .. } | Change::Header { .. } | Change::Item { .. })
        };
        target.changes.iter().all(json)
    };
    targets().into_iter().filter(is_json).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// JSON of each agent, with what it takes beside RFC 8259.
    #[test]
    fn json_settings_come_back(
        (index, (part, noise)) in (0..json_targets().len()).prop_flat_map(|index| {
            (Just(index), files(&json_targets()[index]))
        })
    ) {
        let target = &json_targets()[index];
        let before = Writer::file(&part, &noise, Dialect::of(target.agent, target.role));
        let installed = there_and_back(target, &before)?;
        a_users_edit_survives(target, &before, &installed)?;
    }

    /// Codex's config.toml, also with both kinds of line ends.
    #[test]
    fn toml_settings_come_back(
        lines in prop::collection::vec(prop::sample::select(vec![
            "model = \"x\" # mine", "", "# only a comment", "notes = '''\n[mcp_servers.pintle-task]\n'''", "a.b = 1",
        ]), 0..4),
        tables in prop::collection::vec(prop::sample::select(vec![
            "[mcp_servers.other]\n  command   = 'o'", "[profiles.p]\nb=1", "[[list]]\nc = [ 1,\n 2 ]", "[mcp_servers]",
            "[hooks.state.\"/h/hooks.json:stop:0:0\"]\ntrusted_hash = \"x\"", "[last] # end\n\n\n",
        ]), 0..4),
        crlf in 0_u8..3, mark in any::<bool>(), end in prop::sample::select(vec!["", "\n", "\n\n\n", "\n  "]),
    ) {
        let mut seen = std::collections::BTreeSet::new();
        let mut pieces: Vec<&str> = lines.into_iter().filter(|line| line.is_empty() || seen.insert(*line)).collect();
        // A table stands once but in a list; an explicit parent is written before its children.
        let mut tables: Vec<&str> =
            tables.into_iter().filter(|table| table.starts_with("[[") || seen.insert(*table)).collect();
        tables.sort_by_key(|table| *table != "[mcp_servers]");
        pieces.extend(tables);
        let mut text = pieces.join("\n");
        text.push_str(end);
        text = match crlf {
            0 => text.replace('\n', "\r\n"),
            1 => text.replacen('\n', "\r\n", 1),
            _ => text,
        };
        let before = format!("{}{text}", if mark { "\u{feff}" } else { "" });
        let target = targets().into_iter().find(|target| target.changes.iter().any(|change| {
            matches!(change, Change::TomlServer { .. })
        })).expect("Codex has one");
        there_and_back(&target, before.as_bytes())?;
    }

    /// The instructions that a model reads.
    #[test]
    fn rules_come_back(text in "[a-z# \n\r]{0,60}") {
        for target in targets().iter().filter(|target| matches!(target.changes[..], [Change::Rules { .. }])) {
            there_and_back(target, text.as_bytes())?;
        }
    }
}
