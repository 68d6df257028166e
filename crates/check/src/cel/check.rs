//! Checks an expression when a pack is loaded: bounds, syntax, references, types.
// Over 600 lines because the walk over an expression is one recursion with one arm per kind.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::bounds::{MAX_COMPREHENSION_DEPTH, check_bounds, line_of};
use super::error::{ExpressionError, Problem};
use super::evaluate::Want;
use super::types::{ENTRY, FUNCTIONS, STEP, Ty, VARIABLES};
use ::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use ::cel::{Env, Program};

/// What an expression may refer to beside the variables that are always there.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Names of the scenario's steps. A requirement of the whole pack has none.
    pub steps: BTreeSet<String>,
}

/// Checks an expression that must give what `want` says.
///
/// # Errors
/// [`ExpressionError`] with the line inside the expression.
pub fn check(source: &str, want: Want, scope: &Scope) -> Result<(), ExpressionError> {
    check_bounds(source)?;
    let program = parse(source)?;
    let mut checker = Checker { source, info: program.source_info(), scope, locals: Vec::new(), comprehensions: 0 };
    let root = program.expression();
    let ty = checker.infer(root)?;
    let fits = match (want, &ty) {
        (_, Ty::Dyn) | (Want::Bool, Ty::Bool) | (Want::Text, _) => true,
        (Want::Entries, Ty::Record(record)) => record.name == ENTRY.name,
        (Want::Entries, Ty::List(item)) => match item.as_ref() {
            Ty::Dyn => true,
            Ty::Record(record) => record.name == ENTRY.name,
            _ => false,
        },
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(ExpressionError::new(
        0,
        Problem::Type {
            place: "the expression".to_owned(),
            expected: match want {
                Want::Bool => "bool",
                Want::Text => "a value",
                Want::Entries => "an entry or a list of entries",
            },
            found: ty.name(),
        },
    ))
}

/// CEL's own functions and macros; built at the first use, since it is not free.
static ENV: LazyLock<Env> = LazyLock::new(Env::stdlib);

pub(super) fn parse(source: &str) -> Result<Program, ExpressionError> {
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

struct Checker<'a> {
    source: &'a str,
    info: &'a SourceInfo,
    scope: &'a Scope,
    locals: Vec<(String, Ty)>,
    comprehensions: usize,
}

impl Checker<'_> {
    fn fail<T>(&self, at: &IdedExpr, problem: Problem) -> Result<T, ExpressionError> {
        let offset = self.info.offset_for(at.id).map_or(0, |(start, _)| start as usize);
        Err(ExpressionError::new(line_of(self.source, offset), problem))
    }

    fn infer(&mut self, expr: &IdedExpr) -> Result<Ty, ExpressionError> {
        match &expr.expr {
            Expr::Unspecified => self.fail(expr, Problem::Unsupported("an empty expression")),
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Ty::Bool,
                LiteralValue::Bytes(_) => Ty::Bytes,
                LiteralValue::Double(_) => Ty::Double,
                LiteralValue::Int(_) => Ty::Int,
                LiteralValue::Null => Ty::Null,
                LiteralValue::String(_) => Ty::String,
                LiteralValue::UInt(_) => Ty::Uint,
            }),
            Expr::Ident(name) => self.variable(expr, name),
            Expr::Select(select) => {
                let operand = self.infer(&select.operand)?;
                let ty = self.select(expr, &operand, &select.field)?;
                Ok(if select.test { Ty::Bool } else { ty })
            }
            Expr::List(list) => {
                let mut item = None;
                for element in &list.elements {
                    let ty = self.infer(element)?;
                    item = Some(item.map_or(ty.clone(), |known| join(known, ty)));
                }
                Ok(item.unwrap_or(Ty::Dyn).list_of())
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        let key = self.infer(&entry.key)?;
                        self.expect(&entry.key, "a map key", &key, "string", |ty| *ty == Ty::String)?;
                        self.infer(&entry.value)?;
                    }
                }
                Ok(Ty::Map(Box::new(Ty::Dyn)))
            }
            Expr::Struct(_) => self.fail(expr, Problem::Unsupported("a message literal")),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(expr, call),
        }
    }

    fn variable(&self, at: &IdedExpr, name: &str) -> Result<Ty, ExpressionError> {
        if let Some((_, ty)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Ok(ty.clone());
        }
        if let Some(variable) = VARIABLES.iter().find(|variable| variable.name == name) {
            return Ok(variable.ty.clone());
        }
        let types = ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
        if types.contains(&name) {
            return Ok(Ty::Type);
        }
        self.fail(at, Problem::UnknownVariable(name.to_owned()))
    }

    fn select(&self, at: &IdedExpr, operand: &Ty, field: &str) -> Result<Ty, ExpressionError> {
        match operand {
            Ty::Dyn => Ok(Ty::Dyn),
            Ty::Map(item) => Ok(item.as_ref().clone()),
            Ty::Optional(item) => Ok(Ty::Optional(Box::new(self.select(at, item, field)?))),
            Ty::Record(record) => {
                record.fields.iter().find(|known| known.name == field).map(|known| Ok(known.ty.ty())).unwrap_or_else(
                    || self.fail(at, Problem::UnknownField { record: record.name, field: field.to_owned() }),
                )
            }
            Ty::Steps if self.scope.steps.contains(field) => Ok(Ty::Record(&STEP)),
            Ty::Steps => self.fail(at, Problem::UnknownStep(field.to_owned())),
            other => self.fail(
                at,
                Problem::Type {
                    place: format!("what `.{field}` selects from"),
                    expected: "a record or a map",
                    found: other.name(),
                },
            ),
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Result<Ty, ExpressionError> {
        let range = self.infer(&it.iter_range)?;
        self.comprehensions += 1;
        if self.comprehensions > MAX_COMPREHENSION_DEPTH {
            return self.fail(&it.iter_range, Problem::ComprehensionsTooDeep);
        }
        let item = match range {
            Ty::List(item) => *item,
            Ty::Map(_) | Ty::Steps => Ty::String,
            Ty::Dyn => Ty::Dyn,
            other => {
                return self.fail(
                    &it.iter_range,
                    Problem::Type {
                        place: "what a macro iterates over".to_owned(),
                        expected: "a list or a map",
                        found: other.name(),
                    },
                );
            }
        };
        let accumulator = self.infer(&it.accu_init)?;
        let depth = self.locals.len();
        self.locals.push((it.iter_var.clone(), item));
        if let Some(second) = &it.iter_var2 {
            self.locals.push((second.clone(), Ty::Dyn));
        }
        self.locals.push((it.accu_var.clone(), accumulator));
        self.infer(&it.loop_cond)?;
        let step = self.infer(&it.loop_step)?;
        if let Some(last) = self.locals.last_mut() {
            last.1 = step;
        }
        let result = self.infer(&it.result)?;
        self.locals.truncate(depth);
        self.comprehensions -= 1;
        Ok(result)
    }

    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Result<Ty, ExpressionError> {
        if let Some(target) = &call.target {
            let target = self.infer(target)?;
            return self.method(at, call, &target);
        }
        let mut args = Vec::with_capacity(call.args.len());
        // The second argument of `a.?b` is a literal field name.
        for arg in &call.args {
            args.push(self.infer(arg)?);
        }
        let name = call.func_name.as_str();
        match (name, args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                self.bool_operand(&call.args[0], name, left)?;
                self.bool_operand(&call.args[1], name, right)?;
                Ok(Ty::Bool)
            }
            (operators::LOGICAL_NOT, [operand]) => {
                self.bool_operand(&call.args[0], name, operand)?;
                Ok(Ty::Bool)
            }
            (operators::NOT_STRICTLY_FALSE, [_]) => Ok(Ty::Bool),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                self.bool_operand(&call.args[0], name, condition)?;
                Ok(join(yes.clone(), no.clone()))
            }
            (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
                if comparable(left, right) {
                    return Ok(Ty::Bool);
                }
                self.fail(at, Problem::NeverEqual { left: left.name(), right: right.name() })
            }
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                [left, right],
            ) => {
                let ordered = |ty: &Ty| ty.is_number() || matches!(ty, Ty::Dyn | Ty::String | Ty::Bool | Ty::Bytes);
                self.expect(&call.args[0], "the left side", left, "a number or a string", ordered)?;
                self.expect(&call.args[1], "the right side", right, "a number or a string", ordered)?;
                if comparable(left, right) {
                    return Ok(Ty::Bool);
                }
                self.expect(&call.args[1], "the right side", right, "of the left side's type", |_| false)?;
                Ok(Ty::Bool)
            }
            (operators::ADD, [left, right]) => match (left, right) {
                (Ty::List(a), Ty::List(b)) => Ok(join(a.as_ref().clone(), b.as_ref().clone()).list_of()),
                (Ty::String, Ty::String | Ty::Dyn) | (Ty::Dyn, Ty::String) => Ok(Ty::String),
                _ => self.arithmetic(call, left, right),
            },
            (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [left, right]) => {
                self.arithmetic(call, left, right)
            }
            (operators::NEGATE, [operand]) => {
                self.expect(&call.args[0], "the operand of `-`", operand, "a number", number)?;
                Ok(operand.clone())
            }
            (operators::INDEX, [container, key]) => self.index(at, call, container, key),
            (operators::OPT_INDEX, [container, _]) => {
                let item = match container {
                    Ty::List(item) | Ty::Map(item) => item.as_ref().clone(),
                    _ => Ty::Dyn,
                };
                Ok(Ty::Optional(Box::new(item)))
            }
            (operators::OPT_SELECT, [operand, _]) => {
                let field = match &call.args[1].expr {
                    Expr::Literal(LiteralValue::String(field)) => field.inner().to_owned(),
                    _ => String::new(),
                };
                match operand {
                    Ty::Record(_) | Ty::Steps => Ok(Ty::Optional(Box::new(self.select(at, operand, &field)?))),
                    _ => Ok(Ty::Optional(Box::new(Ty::Dyn))),
                }
            }
            (operators::IN, [_, container]) => {
                self.expect(&call.args[1], "the right side of `in`", container, "a list or a map", |ty| {
                    matches!(ty, Ty::Dyn | Ty::List(_) | Ty::Map(_) | Ty::Steps)
                })?;
                Ok(Ty::Bool)
            }
            ("size", [operand]) => self.size(at, operand),
            ("string", [operand]) => {
                self.expect(&call.args[0], "the argument of `string`", operand, "a scalar", |ty| {
                    ty.is_number() || matches!(ty, Ty::Dyn | Ty::Bool | Ty::String | Ty::Bytes)
                })?;
                Ok(Ty::String)
            }
            ("int", [_]) => Ok(Ty::Int),
            ("uint", [_]) => Ok(Ty::Uint),
            ("double", [_]) => Ok(Ty::Double),
            ("bytes", [_]) => Ok(Ty::Bytes),
            ("bool", [_]) => Ok(Ty::Bool),
            ("type", [_]) => Ok(Ty::Type),
            ("dyn", [_]) => Ok(Ty::Dyn),
            ("size" | "string" | "int" | "uint" | "double" | "bytes" | "bool" | "type" | "dyn", _) => {
                self.arity(at, name, 1, args.len())
            }
            _ => self.ours(at, call, &args),
        }
    }

    fn ours(&self, at: &IdedExpr, call: &CallExpr, args: &[Ty]) -> Result<Ty, ExpressionError> {
        let name = call.func_name.as_str();
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            return self.fail(at, Problem::UnknownFunction(name.to_owned()));
        };
        if args.len() != function.arity {
            return self.arity(at, name, function.arity, args.len());
        }
        let entry =
            |ty: &Ty| matches!(ty, Ty::Dyn | Ty::Null) || matches!(ty, Ty::Record(record) if record.name == ENTRY.name);
        let string = |ty: &Ty| matches!(ty, Ty::Dyn | Ty::String);
        let place = |position: usize| format!("argument {position} of `{name}`");
        match name {
            "frames" => {
                self.expect(&call.args[0], &place(1), &args[0], "a string", string)?;
                self.expect(&call.args[1], &place(2), &args[1], "a string", string)?;
                if let Expr::Literal(LiteralValue::String(dir)) = &call.args[0].expr
                    && !["in", "out", "*"].contains(&dir.inner())
                {
                    return self.fail(
                        &call.args[0],
                        Problem::Type {
                            place: place(1),
                            expected: "\"in\", \"out\" or \"*\"",
                            found: format!("\"{}\"", dir.inner()),
                        },
                    );
                }
                Ok(Ty::Record(&ENTRY).list_of())
            }
            "reply_to" => {
                self.expect(&call.args[0], &place(1), &args[0], "an entry", entry)?;
                Ok(Ty::Record(&ENTRY))
            }
            "before" => {
                self.expect(&call.args[0], &place(1), &args[0], "an entry", entry)?;
                self.expect(&call.args[1], &place(2), &args[1], "an entry", entry)?;
                Ok(Ty::Bool)
            }
            "index" => {
                self.expect(&call.args[0], &place(1), &args[0], "an entry", entry)?;
                Ok(Ty::Int)
            }
            _ => {
                self.expect(&call.args[1], &place(2), &args[1], "a string", string)?;
                Ok(if name == "items" { Ty::Dyn.list_of() } else { Ty::Dyn })
            }
        }
    }

    fn method(&mut self, at: &IdedExpr, call: &CallExpr, target: &Ty) -> Result<Ty, ExpressionError> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.infer(arg)?);
        }
        let name = call.func_name.as_str();
        match (name, args.as_slice()) {
            ("contains" | "startsWith" | "endsWith", [argument]) => {
                let string = |ty: &Ty| matches!(ty, Ty::Dyn | Ty::String);
                self.expect(at, &format!("what `.{name}()` is called on"), target, "a string", string)?;
                self.expect(&call.args[0], &format!("the argument of `.{name}()`"), argument, "a string", string)?;
                Ok(Ty::Bool)
            }
            ("size", []) => self.size(at, target),
            ("orValue", [argument]) => match target {
                Ty::Optional(item) => Ok(join(item.as_ref().clone(), argument.clone())),
                Ty::Dyn => Ok(Ty::Dyn),
                _ => self.not_optional(at, name, target),
            },
            ("hasValue", []) => match target {
                Ty::Optional(_) | Ty::Dyn => Ok(Ty::Bool),
                _ => self.not_optional(at, name, target),
            },
            ("value", []) => match target {
                Ty::Optional(item) => Ok(item.as_ref().clone()),
                Ty::Dyn => Ok(Ty::Dyn),
                _ => self.not_optional(at, name, target),
            },
            ("contains" | "startsWith" | "endsWith" | "orValue", _) => self.arity(at, name, 1, args.len()),
            ("size" | "hasValue" | "value", _) => self.arity(at, name, 0, args.len()),
            _ => self.fail(at, Problem::UnknownFunction(name.to_owned())),
        }
    }

    fn not_optional(&self, at: &IdedExpr, name: &str, found: &Ty) -> Result<Ty, ExpressionError> {
        self.fail(
            at,
            Problem::Type {
                place: format!("what `.{name}()` is called on"),
                expected: "an optional value, as `a.?b` gives it",
                found: found.name(),
            },
        )
    }

    fn size(&self, at: &IdedExpr, operand: &Ty) -> Result<Ty, ExpressionError> {
        self.expect(at, "the argument of `size`", operand, "a string, a list or a map", |ty| {
            matches!(ty, Ty::Dyn | Ty::String | Ty::Bytes | Ty::List(_) | Ty::Map(_) | Ty::Steps)
        })?;
        Ok(Ty::Int)
    }

    fn index(&self, at: &IdedExpr, call: &CallExpr, container: &Ty, key: &Ty) -> Result<Ty, ExpressionError> {
        match (container, &call.args[1].expr) {
            (Ty::Record(_) | Ty::Steps, Expr::Literal(LiteralValue::String(name))) => {
                self.select(at, container, name.inner())
            }
            (Ty::Steps, _) => Ok(Ty::Record(&STEP)),
            (Ty::Record(_) | Ty::Dyn | Ty::Optional(_), _) => Ok(Ty::Dyn),
            (Ty::List(item), _) => {
                self.expect(&call.args[1], "a list index", key, "a number", number)?;
                Ok(item.as_ref().clone())
            }
            (Ty::Map(item), _) => Ok(item.as_ref().clone()),
            (other, _) => self.fail(
                at,
                Problem::Type { place: "what is indexed".to_owned(), expected: "a list or a map", found: other.name() },
            ),
        }
    }

    fn arithmetic(&self, call: &CallExpr, left: &Ty, right: &Ty) -> Result<Ty, ExpressionError> {
        self.expect(&call.args[0], "an operand of arithmetic", left, "a number", number)?;
        self.expect(&call.args[1], "an operand of arithmetic", right, "a number", number)?;
        if left.is_number() && right.is_number() && left != right {
            return self.fail(
                &call.args[1],
                Problem::Type {
                    place: "the right operand".to_owned(),
                    expected: "of the left operand's type",
                    found: right.name(),
                },
            );
        }
        Ok(if *left == Ty::Dyn { right.clone() } else { left.clone() })
    }

    fn bool_operand(&self, at: &IdedExpr, operator: &str, found: &Ty) -> Result<(), ExpressionError> {
        let place = match operator {
            operators::LOGICAL_AND => "an operand of `&&`",
            operators::LOGICAL_OR => "an operand of `||`",
            operators::LOGICAL_NOT => "the operand of `!`",
            _ => "the condition of `?:`",
        };
        self.expect(at, place, found, "bool", |ty| matches!(ty, Ty::Dyn | Ty::Bool))
    }

    fn expect(
        &self,
        at: &IdedExpr,
        place: &str,
        found: &Ty,
        expected: &'static str,
        fits: impl Fn(&Ty) -> bool,
    ) -> Result<(), ExpressionError> {
        if fits(found) {
            return Ok(());
        }
        self.fail(at, Problem::Type { place: place.to_owned(), expected, found: found.name() })
    }

    fn arity(&self, at: &IdedExpr, function: &str, expected: usize, found: usize) -> Result<Ty, ExpressionError> {
        self.fail(at, Problem::Arity { function: function.to_owned(), expected, found })
    }
}

fn number(ty: &Ty) -> bool {
    *ty == Ty::Dyn || ty.is_number()
}

/// The type of a value that is one or the other.
fn join(left: Ty, right: Ty) -> Ty {
    match (left, right) {
        (left, right) if left == right => left,
        (Ty::Record(record), Ty::Null) | (Ty::Null, Ty::Record(record)) => Ty::Record(record),
        (Ty::List(a), Ty::List(b)) => join(*a, *b).list_of(),
        _ => Ty::Dyn,
    }
}

/// Whether two values can be equal at all. Records may be null; numbers compare across types.
fn comparable(left: &Ty, right: &Ty) -> bool {
    match (left, right) {
        (Ty::Dyn, _) | (_, Ty::Dyn) => true,
        (Ty::Record(_), Ty::Null) | (Ty::Null, Ty::Record(_)) => true,
        (Ty::List(a), Ty::List(b)) | (Ty::Map(a), Ty::Map(b)) | (Ty::Optional(a), Ty::Optional(b)) => comparable(a, b),
        (a, b) => a == b || (a.is_number() && b.is_number()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope { steps: ["turn", "session"].map(str::to_owned).into() }
    }

    fn accepted(source: &str) {
        assert_eq!(check(source, Want::Bool, &scope()), Ok(()), "{source}");
    }

    fn refused(source: &str, line: usize, message: &str) {
        let error = check(source, Want::Bool, &scope()).expect_err(source);
        assert_eq!((error.line, error.to_string().as_str()), (line, message), "{source}");
    }

    #[test]
    fn what_packs_need_is_accepted() {
        accepted("steps.turn.replied && steps.turn.result.stopReason == 'end_turn'");
        accepted("steps['turn'].sent");
        accepted("frames('in', 'session/update').all(u, before(u, steps.turn.reply))");
        accepted("trace.exists(e, e.kind == 'flood' && e.count > 3)");
        accepted("trace.filter(e, e.dir == 'in').map(e, e.method).size() == 0");
        accepted("get(init, 'agentInfo.name') == 'x' || caps.?loadSession.orValue(false)");
        accepted("type(get(init, 'protocolVersion')) == int");
        accepted("steps.turn.reply == null || reply_to(steps.turn.frame).i >= 0");
        accepted("steps.turn.end_ms - steps.turn.t_ms < 100.0");
        accepted("steps.turn.end_ms > timeouts.quiet");
        accepted("steps.all(name, steps[name].status != 'failed')");
        accepted("'x' in ['x', 'y'] ? true : exit.known");
    }

    #[test]
    fn references_are_checked() {
        refused(
            "step.turn.sent",
            0,
            "there is no variable `step`; there are trace, steps, init, caps, exit, descendants, timeouts, offered",
        );
        refused("steps.trun.sent", 0, "no step of this scenario is named `trun`");
        refused("steps['trun'].sent", 0, "no step of this scenario is named `trun`");
        refused("steps.turn.send", 0, "step has no field `send`");
        refused("true &&\nsteps.turn.reply.jsn == 1", 1, "entry has no field `jsn`");
        refused(
            "frame('in', 'x').size() == 1",
            0,
            "there is no function `frame`; beside CEL's own there are frames, reply_to, before, index, get, items",
        );
        refused(
            "exit.phase.lower() == 'x'",
            0,
            "there is no function `lower`; beside CEL's own there are frames, reply_to, before, index, get, items",
        );
        refused("trace.exists(e, e.metod == 'x')", 0, "entry has no field `metod`");
    }

    #[test]
    fn types_are_checked() {
        refused("steps.turn.replies", 0, "the expression must be bool, not int");
        refused("steps.turn.sent && steps.turn.replies", 0, "an operand of `&&` must be bool, not int");
        refused("steps.turn.status == 1", 0, "a string is never equal to a int");
        refused("steps.turn.sent == null", 0, "a bool is never equal to a null");
        refused("steps.turn.status > 1", 0, "the right side must be of the left side's type, not int");
        refused("before(steps.turn, steps.turn.reply)", 0, "argument 1 of `before` must be an entry, not step");
        refused(
            "frames('up', 'x').size() == 0",
            0,
            "argument 1 of `frames` must be \"in\", \"out\" or \"*\", not \"up\"",
        );
        refused("frames('in').size() == 0", 0, "`frames` takes 2 argument(s), not 1");
        refused("size(1) == 1", 0, "the argument of `size` must be a string, a list or a map, not int");
        refused("steps.turn.t_ms + 1 > 2", 0, "the right operand must be of the left operand's type, not int");
        refused("exit.known.x", 0, "what `.x` selects from must be a record or a map, not bool");
    }

    #[test]
    fn syntax_errors_carry_their_line() {
        refused("true &&", 0, "syntax: mismatched input '<EOF>'");
        let error = check("true\n&& )", Want::Bool, &scope()).expect_err("not CEL");
        assert_eq!(error.line, 1);
    }

    #[test]
    fn nested_macros_are_limited() {
        let nest = |depth: usize| (0..depth).fold("true".to_owned(), |inner, n| format!("trace.all(e{n}, {inner})"));
        accepted(&nest(MAX_COMPREHENSION_DEPTH));
        refused(&nest(MAX_COMPREHENSION_DEPTH + 1), 0, "all, exists, filter and map nest deeper than 3");
    }

    #[test]
    fn what_is_shown_must_be_entries() {
        let entries = |source: &str| check(source, Want::Entries, &scope());
        assert_eq!(entries("steps.turn.reply"), Ok(()));
        assert_eq!(entries("frames('in', '*').filter(f, !f.valid)"), Ok(()));
        assert_eq!(entries("[steps.turn.frame, steps.turn.reply]"), Ok(()));
        assert_eq!(
            entries("steps.turn").expect_err("a step is not an entry").to_string(),
            "the expression must be an entry or a list of entries, not step"
        );
    }
}
