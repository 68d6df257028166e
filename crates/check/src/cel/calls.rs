//! The types of calls: operators, functions, methods.

use super::check::{Checker, comparable, join, number};
use super::error::{ExpressionError, Problem};
use super::types::{ENTRY, FUNCTIONS, STEP, Ty};
use ::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

impl Checker<'_> {
    pub(super) fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Result<Ty, ExpressionError> {
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
}
