//! Checks an expression when a pack is loaded: bounds, syntax, references, types.

use std::collections::BTreeSet;

use super::bounds::{MAX_COMPREHENSION_DEPTH, check_bounds, line_of};
use super::error::{ExpressionError, Problem};
use super::evaluate::Want;
use super::parse::{parse_quickly, parse_with_places};
use super::types::{ENTRY, STEP, Ty, VARIABLES};
use ::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};

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
    if let Some(expression) = parse_quickly(source)
        && check_expression(&expression, source, &SourceInfo::default(), want, scope).is_ok()
    {
        return Ok(());
    }
    // What is wrong, and in which line, the other parser tells.
    let program = parse_with_places(source)?;
    check_expression(program.expression(), source, program.source_info(), want, scope)
}

fn check_expression(
    root: &IdedExpr,
    source: &str,
    info: &SourceInfo,
    want: Want,
    scope: &Scope,
) -> Result<(), ExpressionError> {
    let mut checker = Checker { source, info, scope, locals: Vec::new(), comprehensions: 0 };
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

pub(super) struct Checker<'a> {
    source: &'a str,
    info: &'a SourceInfo,
    scope: &'a Scope,
    locals: Vec<(String, Ty)>,
    comprehensions: usize,
}

impl Checker<'_> {
    pub(super) fn fail<T>(&self, at: &IdedExpr, problem: Problem) -> Result<T, ExpressionError> {
        let offset = self.info.offset_for(at.id).map_or(0, |(start, _)| start as usize);
        Err(ExpressionError::new(line_of(self.source, offset), problem))
    }

    pub(super) fn infer(&mut self, expr: &IdedExpr) -> Result<Ty, ExpressionError> {
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

    pub(super) fn select(&self, at: &IdedExpr, operand: &Ty, field: &str) -> Result<Ty, ExpressionError> {
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

    pub(super) fn bool_operand(&self, at: &IdedExpr, operator: &str, found: &Ty) -> Result<(), ExpressionError> {
        let place = match operator {
            operators::LOGICAL_AND => "an operand of `&&`",
            operators::LOGICAL_OR => "an operand of `||`",
            operators::LOGICAL_NOT => "the operand of `!`",
            _ => "the condition of `?:`",
        };
        self.expect(at, place, found, "bool", |ty| matches!(ty, Ty::Dyn | Ty::Bool))
    }

    pub(super) fn expect(
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

    pub(super) fn arity(
        &self,
        at: &IdedExpr,
        function: &str,
        expected: usize,
        found: usize,
    ) -> Result<Ty, ExpressionError> {
        self.fail(at, Problem::Arity { function: function.to_owned(), expected, found })
    }
}

pub(super) fn number(ty: &Ty) -> bool {
    *ty == Ty::Dyn || ty.is_number()
}

/// The type of a value that is one or the other.
pub(super) fn join(left: Ty, right: Ty) -> Ty {
    match (left, right) {
        (left, right) if left == right => left,
        (Ty::Record(record), Ty::Null) | (Ty::Null, Ty::Record(record)) => Ty::Record(record),
        (Ty::List(a), Ty::List(b)) => join(*a, *b).list_of(),
        _ => Ty::Dyn,
    }
}

/// Whether two values can be equal at all. Records may be null; numbers compare across types.
pub(super) fn comparable(left: &Ty, right: &Ty) -> bool {
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
