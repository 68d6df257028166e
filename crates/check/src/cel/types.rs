//! The names that an expression may use, and their types. `docs/packs.md` shows the same tables; a test compares them.

/// Static type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    /// Known only when it is evaluated: parts of JSON messages.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// A type, as `type(x)` gives it.
    Type,
    /// A list.
    List(Box<Self>),
    /// A map with string keys.
    Map(Box<Self>),
    /// An optional value, as `a.?b` gives it.
    Optional(Box<Self>),
    /// A record of [`RECORDS`], or `null`.
    Record(&'static Record),
    /// The map of the scenario's named steps.
    Steps,
}

impl Ty {
    pub(super) fn list_of(self) -> Self {
        Self::List(Box::new(self))
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// The name that error messages use.
    pub fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Type => "type".to_owned(),
            Self::List(item) => format!("list({})", item.name()),
            Self::Map(item) => format!("map({})", item.name()),
            Self::Optional(item) => format!("optional({})", item.name()),
            Self::Record(record) => record.name.to_owned(),
            Self::Steps => "steps".to_owned(),
        }
    }
}

/// A record type with fixed fields.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name in documentation and errors.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of a [`Record`].
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: FieldTy,
    /// What it says, with its unit.
    pub doc: &'static str,
}

/// Types that fields can have; a subset of [`Ty`] that a constant can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTy {
    /// `dyn`.
    Dyn,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// List of strings.
    Strings,
    /// An entry of the trace, or `null`.
    Entry,
}

impl FieldTy {
    pub(super) fn ty(self) -> Ty {
        match self {
            Self::Dyn => Ty::Dyn,
            Self::Bool => Ty::Bool,
            Self::Int => Ty::Int,
            Self::Double => Ty::Double,
            Self::String => Ty::String,
            Self::Strings => Ty::String.list_of(),
            Self::Entry => Ty::Record(&ENTRY),
        }
    }

    /// The name that the documentation uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dyn => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::String => "string",
            Self::Strings => "list(string)",
            Self::Entry => "entry or null",
        }
    }
}

/// A variable of every expression.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: Ty,
    /// What it is.
    pub doc: &'static str,
}

/// A function of ours. The standard functions of CEL are there too.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// How it is called, for documentation and errors.
    pub signature: &'static str,
    /// Number of arguments.
    pub arity: usize,
    /// What it gives.
    pub doc: &'static str,
}

macro_rules! fields {
    ($($name:literal: $ty:ident = $doc:literal;)*) => {
        &[$(Field { name: $name, ty: FieldTy::$ty, doc: $doc }),*]
    };
}

/// An entry of the trace.
pub(super) static ENTRY: Record = Record {
    name: "entry",
    fields: fields! {
        "i": Int = "position in the trace, from 0";
        "t_ms": Double = "milliseconds since the scenario began";
        "kind": String = "`frame`, `stderr`, `step`, `exit`, `descendants`, `flood` or `gap`";
        "dir": String = "`in` (from the agent), `out` (to it), or empty";
        "line": Int = "line number in its direction, from 1; 0 when it is not a frame";
        "text": String = "the line, cut at 4 KiB; for `stderr` the text";
        "size": Int = "bytes of the line without its ending";
        "json": Dyn = "the message, or null when it is not one";
        "valid": Bool = "the line is one JSON-RPC message; true for entries that are not frames";
        "fault": String = "what is wrong with the line (`invalid_utf8`, `syntax`, `blank`, `not_object`, `jsonrpc`, `id`, `result_and_error`, ..), or empty";
        "method": String = "`method`, or empty";
        "id": Dyn = "`id`, or null";
        "session": String = "session that it is about (`params.sessionId`, `result.sessionId`), or empty";
        "session_known": Bool = "the agent created that session in this trace, or the client named it";
        "update": String = "`params.update.sessionUpdate` of a `session/update`, or empty";
        "is_request": Bool = "a request";
        "is_notification": Bool = "a notification";
        "is_response": Bool = "a response";
        "answers": Int = "for a response: `i` of the request that it answers; -1 when there is none, or it was answered already";
        "answered": Int = "for a request: `i` of its first response; -1 when there is none";
        "step": Int = "index of the step that sent it, or that ran when it came; -1 after the last";
        "name": String = "name of the step that sent it, or empty";
        "status": String = "for `step`: `ok`, `timeout`, `skipped`, `failed`; else empty";
        "unterminated": Bool = "the last line of stdout had no line feed";
        "lone_surrogates": Int = "lone surrogate escapes in the line";
        "count": Int = "for `flood` and `gap`: how many frames it stands for; else 1";
    },
};

/// What is known of a named step.
pub(super) static STEP: Record = Record {
    name: "step",
    fields: fields! {
        "name": String = "its name";
        "kind": String = "`prompt`, `wait`, ..";
        "status": String = "`ok`, `timeout`, `skipped`, `failed`; `skipped` also when it was never reached";
        "sent": Bool = "its frame was written";
        "replied": Bool = "a response came in time: not only after stdin was closed, when a step had waited for it in vain";
        "ok": Bool = "a response with `result` came in time";
        "failed": Bool = "a response with `error` came in time";
        "auth_required": Bool = "the response is error -32000";
        "replies": Int = "responses with this id, duplicates and late ones included";
        "t_ms": Double = "milliseconds since the scenario began: its frame was written, else the step began; -1 when skipped";
        "end_ms": Double = "milliseconds since the scenario began: the response came, else the step ended; -1 when skipped";
        "frame": Entry = "what it sent; for `wait` the frame that ended the wait";
        "reply": Entry = "the first response, if it came in time";
        "result": Dyn = "`result` of the response, or null";
        "error": Dyn = "`error` of the response, or null";
        "session": String = "session id that it got (`new_session`) or used, or empty";
    },
};

/// How the agent ended.
pub(super) static EXIT: Record = Record {
    name: "exit",
    fields: fields! {
        "known": Bool = "the exit was seen";
        "code": Dyn = "exit code, or null";
        "signal": Dyn = "signal number, or null";
        "phase": String = "`running` (before stdin was closed), `signalled`, `closed` (by itself, in time), `terminated`, `killed`, or empty";
        "t_ms": Double = "milliseconds since the scenario began, or -1";
        "after_close_ms": Double = "milliseconds after stdin was closed, or -1";
    },
};

/// What the agent left behind.
pub(super) static DESCENDANTS: Record = Record {
    name: "descendants",
    fields: fields! {
        "known": Bool = "the driver was able to look";
        "count": Int = "processes alive after the agent's exit";
        "names": Strings = "their names";
    },
};

/// The waits of the scenario.
pub(super) static TIMEOUTS: Record = Record {
    name: "timeouts",
    fields: fields! {
        "start": Int = "milliseconds";
        "request": Int = "milliseconds";
        "prompt": Int = "milliseconds";
        "quiet": Int = "milliseconds";
        "close_grace": Int = "milliseconds";
        "term_grace": Int = "milliseconds";
    },
};

/// Every record type.
pub static RECORDS: [&Record; 5] = [&ENTRY, &STEP, &EXIT, &DESCENDANTS, &TIMEOUTS];

/// Every variable.
pub static VARIABLES: std::sync::LazyLock<Vec<Variable>> = std::sync::LazyLock::new(|| {
    let variable = |name, ty, doc| Variable { name, ty, doc };
    vec![
        variable("trace", Ty::Record(&ENTRY).list_of(), "every entry, in order"),
        variable("steps", Ty::Steps, "the scenario's named steps by name, also those that were never reached"),
        variable("init", Ty::Dyn, "`result` of the first answered `initialize`, or null"),
        variable("caps", Ty::Dyn, "`agentCapabilities` of it, or an empty map"),
        variable("exit", Ty::Record(&EXIT), "how the agent ended"),
        variable("descendants", Ty::Record(&DESCENDANTS), "what the agent left behind"),
        variable("timeouts", Ty::Record(&TIMEOUTS), "the waits of the scenario"),
        variable("offered", Ty::Dyn, "the scenario's `client_capabilities`"),
    ]
});

/// Every function of ours.
pub static FUNCTIONS: [Function; 6] = [
    Function {
        name: "frames",
        signature: "frames(dir: string, method: string) -> list(entry)",
        arity: 2,
        doc: "frames of a direction (`in`, `out`, `*`) with this method; `fs/*` matches by prefix, `*` is any frame, an \
              empty method is a frame without one (responses and malformed lines)",
    },
    Function {
        name: "reply_to",
        signature: "reply_to(f: entry or null) -> entry or null",
        arity: 1,
        doc: "the first response to a request",
    },
    Function {
        name: "before",
        signature: "before(a: entry or null, b: entry or null) -> bool",
        arity: 2,
        doc: "`a` stands before `b` in the trace; false when either is null",
    },
    Function { name: "index", signature: "index(f: entry or null) -> int", arity: 1, doc: "`f.i`, or -1 for null" },
    Function {
        name: "get",
        signature: "get(value: dyn, path: string) -> dyn",
        arity: 2,
        doc: "the value at a path of member names and array indices joined by `.`, or null where the path leads \
              nowhere; never an error",
    },
    Function {
        name: "items",
        signature: "items(value: dyn, path: string) -> list(dyn)",
        arity: 2,
        doc: "the list at such a path, or an empty one where there is no list; never an error",
    },
];

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::PathBuf;

    use super::*;

    /// The tables of the documentation, as the code says them.
    fn tables() -> [(&'static str, String); 3] {
        let mut variables = String::from("| name | type | what it is |\n| --- | --- | --- |\n");
        for variable in VARIABLES.iter() {
            writeln!(variables, "| `{}` | {} | {} |", variable.name, variable.ty.name(), variable.doc)
                .expect("a string");
        }
        let mut functions = String::from("| function | gives |\n| --- | --- |\n");
        for function in &FUNCTIONS {
            writeln!(functions, "| `{}` | {} |", function.signature, function.doc).expect("a string");
        }
        let mut records = String::new();
        for record in RECORDS {
            writeln!(records, "`{}`:\n\n| field | type | what it says |\n| --- | --- | --- |", record.name)
                .expect("a string");
            for field in record.fields {
                writeln!(records, "| `{}` | {} | {} |", field.name, field.ty.name(), field.doc).expect("a string");
            }
            records.push('\n');
        }
        [("variables", variables), ("functions", functions), ("records", records.trim_end().to_owned() + "\n")]
    }

    /// `PINTLE_UPDATE_SCHEMAS=1 cargo test -p pintle-check documented` writes the tables.
    #[test]
    fn every_variable_function_and_field_is_documented() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/packs.md");
        let mut text = std::fs::read_to_string(&path).expect("the document is there");
        for (name, table) in tables() {
            let begin = format!("<!-- {name} -->\n");
            let start = text.find(&begin).expect("the table's mark") + begin.len();
            let end = start + text[start..].find("<!-- end -->").expect("the table's end");
            if std::env::var_os("PINTLE_UPDATE_SCHEMAS").is_some() {
                text.replace_range(start..end, &table);
                std::fs::write(&path, &text).expect("the document can be written");
            } else {
                assert_eq!(&text[start..end], table, "docs/packs.md, {name}");
            }
        }
    }
}
