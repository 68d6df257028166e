//! Expressions from text, by two parsers of the crate that read the same language.
//!
//! The one that is generated from the grammar knows where everything stands, but is slow, and a pack has hundreds of
//! expressions, which a check reads twice. So an expression is read by the one that was written by hand, and by the other
//! only when the first does not take it, or when somebody must be told what is wrong with it. That both make the same
//! of whatever the first takes is a property test.

use std::sync::LazyLock;

use ::cel::common::ast::IdedExpr;
use ::cel::parser::PrattParser;
use ::cel::{Env, Program};

use super::error::{ExpressionError, Problem};

/// CEL's own functions and macros; built at the first use, since it is not free.
static ENV: LazyLock<Env> = LazyLock::new(Env::stdlib);

/// The expression that `source` is.
///
/// # Errors
/// It is none.
pub(super) fn parse(source: &str) -> Result<IdedExpr, ExpressionError> {
    match parse_quickly(source) {
        Some(expression) => Ok(expression),
        None => parse_with_places(source).map(|program| program.expression().clone()),
    }
}

/// The expression, if the quick parser takes it. That it does not says nothing yet.
pub(super) fn parse_quickly(source: &str) -> Option<IdedExpr> {
    if reads_more(source.as_bytes()) {
        return None;
    }
    PrattParser::new().enable_optional_syntax(true).parse(source).ok()
}

/// Whether something is in it that the quick parser takes and the grammar does not: `!` before `-` or the other way round,
/// and the rarer kinds of strings (`rb''`, three quotes, line breaks in them).
fn reads_more(source: &[u8]) -> bool {
    let mut before = b' ';
    let mut at = 0;
    while let Some(&byte) = source.get(at) {
        at += 1;
        match byte {
            b'"' | b'\'' if before.is_ascii_alphanumeric() => return true,
            b'"' | b'\'' => match plain_string(&source[at..], byte) {
                Some(bytes) => at += bytes,
                None => return true,
            },
            b'/' if source.get(at) == Some(&b'/') => {
                at += source[at..].iter().position(|&b| b == b'\n').unwrap_or(source.len() - at);
                continue;
            }
            b'!' | b'-' if matches!(before, b'!' | b'-') && before != byte => return true,
            _ if byte.is_ascii_whitespace() => continue,
            _ => {}
        }
        before = byte;
    }
    false
}

/// Bytes up to the end of a string that began with `quote`, on one line.
fn plain_string(rest: &[u8], quote: u8) -> Option<usize> {
    if rest.starts_with(&[quote, quote]) {
        return None;
    }
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'\\' => at += 2,
            b'\n' | b'\r' => return None,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The expression with the place of each part.
///
/// # Errors
/// It is none; with the line inside of it.
pub(super) fn parse_with_places(source: &str) -> Result<Program, ExpressionError> {
    ENV.compile(source).map_err(|errors| {
        errors.errors.first().map_or_else(
            || ExpressionError::new(0, Problem::Syntax("not an expression".to_owned())),
            |error| {
                let line = usize::try_from(error.pos.0).unwrap_or(1).saturating_sub(1);
                ExpressionError::new(line, Problem::Syntax(one_line(&error.msg)))
            },
        )
    })
}

/// The parser's message on one line and without its list of every token it would have liked.
fn one_line(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    message.split_once(" expecting {").map_or(message, |(head, _)| head).to_owned()
}

#[cfg(test)]
mod tests {
    use ::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, LiteralValue};
    use proptest::prelude::*;

    use super::*;
    use crate::pack::Pack;

    /// The tree without the numbers of its nodes, which each parser counts in its own order.
    fn bare(mut at: IdedExpr) -> IdedExpr {
        forget(&mut at);
        at
    }

    fn forget(at: &mut IdedExpr) {
        at.id = 0;
        match &mut at.expr {
            Expr::Call(call) => {
                call.target.iter_mut().for_each(|target| forget(target));
                call.args.iter_mut().for_each(forget);
            }
            Expr::Comprehension(it) => {
                let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } = it.as_mut();
                for part in [iter_range, accu_init, loop_cond, loop_step, result] {
                    forget(part);
                }
            }
            Expr::List(list) => list.elements.iter_mut().for_each(forget),
            Expr::Map(map) => map.entries.iter_mut().for_each(forget_entry),
            Expr::Struct(message) => message.entries.iter_mut().for_each(forget_entry),
            Expr::Select(select) => forget(&mut select.operand),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        }
    }

    fn forget_entry(entry: &mut IdedEntryExpr) {
        entry.id = 0;
        match &mut entry.expr {
            EntryExpr::StructField(field) => forget(&mut field.value),
            EntryExpr::MapEntry(entry) => {
                forget(&mut entry.key);
                forget(&mut entry.value);
            }
        }
    }

    /// Whatever the quick parser takes, the other takes as well, and reads it alike.
    fn agree(source: &str) -> Result<bool, TestCaseError> {
        let Some(quick) = parse_quickly(source) else { return Ok(false) };
        let slow = match parse_with_places(source) {
            Ok(program) => program.expression().clone(),
            Err(error) => return Err(TestCaseError::fail(format!("only the quick parser takes {source:?}: {error}"))),
        };
        prop_assert_eq!(bare(quick), bare(slow), "{}", source);
        Ok(true)
    }

    #[test]
    fn the_quick_parser_takes_every_expression_of_the_pack_and_reads_it_as_the_other_does() {
        let pack = Pack::embedded().expect("the pack loads");
        let mut count = 0;
        for (_, requirement) in pack.requirements() {
            let single = [&requirement.advertised, &requirement.exercised, &requirement.inconclusive_if];
            let shown = [&requirement.observed, &requirement.show];
            let expressions = single.into_iter().chain(shown).flatten().chain(&requirement.assert);
            for source in expressions {
                assert!(agree(source).expect("the same tree"), "{source}");
                count += 1;
            }
        }
        assert!(count > 300, "{count} expressions");
    }

    #[test]
    fn literals_are_read_alike() {
        for source in [
            r"'a\n\t\\\'\x41\u00e9\U0001F600\101\?'",
            r#""it's" + 'say "so"'"#,
            r"r'\d+' + R'\n'",
            "'''one 'two' three'''",
            r"b'\xff\001' == b'abc'",
            "-9223372036854775808",
            "9223372036854775807 + 0x7f - 18446744073709551615u",
            "1.5e-3 + .5 + 2e10",
            "[1, 2u, null, true, false, {'a': {1: [], true: {}}}]",
            "!!a && !b || -(-c) == d ? e : f ? g : h",
            "a.b.c(d)[e].f.?g[?h].i",
            "has(a.b) && !has(a.b.c)",
            "x in [1] && !(y in z)",
            "a - -1 // said",
            "{'a': 1}.map(k, k).exists_one(e, e == 'a')",
            "a.all(x, x.exists(y, y.filter(z, z > 1).size() > 0))",
            "f(g(h()), [i()], {'j': k()})",
            "\n a\t==\r\n b",
            ".a.b",
            "'\u{00e9}\u{1F600}'.size()",
        ] {
            agree(source).expect("the same tree");
        }
    }

    #[rustfmt::skip]
    const LEAVES: [&str; 19] = [
        "a", "b", "steps", "true", "false", "null", "1", "2u", "0x1F", "1.5", "1e3", ".5", "'s'", "\"t\"", "b'x'",
        r"r'\y'", r"'\n'", r"'\u00e9'", "'''q'''",
    ];

    const OPERATORS: [&str; 15] =
        ["==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/", "%", "in", "? 1 :"];

    #[rustfmt::skip]
    const OTHERS: [&str; 31] = [
        "(", ")", "[", "]", "{", "}", ",", ".", ".?", "[?", "?", ":", "!", "has(a.b)", ".all(x,", ".map(y,",
        ".filter(z,", ".exists(e,", "size(", "x", "y", "if", "for", "package", "import", "// c\n", " ", "=", "`a-b`",
        "-", "''",
    ];

    fn token() -> impl Strategy<Value = &'static str> {
        prop_oneof![
            prop::sample::select(&LEAVES[..]),
            prop::sample::select(&OPERATORS[..]),
            prop::sample::select(&OTHERS[..])
        ]
    }

    fn expression() -> impl Strategy<Value = String> {
        prop::sample::select(&LEAVES[..]).prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
            let operator = prop::sample::select(&OPERATORS[..]);
            let two = || (inner.clone(), inner.clone());
            prop_oneof![
                (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
                (two(), inner.clone()).prop_map(|((a, b), c)| format!("{a} ? {b} : {c}")),
                inner.clone().prop_map(|a| format!("({a})")),
                inner.clone().prop_map(|a| format!("!{a}")),
                inner.clone().prop_map(|a| format!("-{a}")),
                two().prop_map(|(a, b)| format!("{a}[{b}]")),
                inner.clone().prop_map(|a| format!("{a}.b.?c")),
                two().prop_map(|(a, b)| format!("[{a}, ?{b}]")),
                two().prop_map(|(a, b)| format!("{{{a}: {b}}}")),
                two().prop_map(|(a, b)| format!("({a}).all(x, {b})")),
                two().prop_map(|(a, b)| format!("f({a}, {b})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn soups_of_tokens_are_read_alike(tokens in prop::collection::vec(token(), 1..12)) {
            agree(&tokens.concat())?;
            agree(&tokens.join(" "))?;
        }

        #[test]
        fn expressions_are_read_alike(source in expression()) {
            agree(&source)?;
        }

        #[test]
        fn text_is_read_alike(source in "[ -~é\n]{0,24}") {
            agree(&source)?;
        }

        #[test]
        fn strings_are_read_alike(source in r#"[rbB]{0,2}['"]([ -~é]|\\[abfnrtvx'"?u0-9U]){0,8}['"]"#) {
            agree(&source)?;
        }
    }

    /// That the comparison would see a difference.
    #[test]
    fn other_trees_are_not_equal() {
        let tree = |source| bare(parse_quickly(source).expect("an expression"));
        assert_ne!(tree("a - b - c"), tree("a - (b - c)"));
        assert_eq!(tree("a - b - c"), tree("(a - b) - c"));
        assert!(matches!(tree("1").expr, Expr::Literal(LiteralValue::Int(_))));
    }
}
