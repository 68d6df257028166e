//! Frames as a driver may and may not take them.

use pintle_sdk::driver::{ErrorClass, Id, MAX_CONTROL_FRAME_BYTES};
use serde_json::json;

use super::refused;
use crate::kit::Trial;
use crate::kit::answer::Answer;
use crate::kit::session::Session;
use crate::kit::stop::{Step, Stop};

const CAPABILITIES: &str = "driver.capabilities";

fn text(id: &str) -> Id {
    Id::Str(id.into())
}

pub(super) async fn ids(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let long = "i".repeat(4096);
    let ids =
        [Id::Int(0), Id::Int(-1), Id::Int((1 << 53) - 1), text(""), text("7"), text("\u{1f600} \"\\"), text(&long)];
    for id in ids {
        session.expect(id.clone());
        let line = Session::request(&id, CAPABILITIES, None)?;
        session.write(line);
        session.answer(&id, "a request with an unusual id").await?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn carriage_return(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let id = text("crlf");
    let mut line = Session::request(&id, CAPABILITIES, None)?;
    line.truncate(line.len() - 1);
    line.extend_from_slice(b"\r\n");
    session.expect(id.clone());
    session.write(line);
    accepted(&session.answer(&id, "a frame that ends with CR LF").await?)?;
    session.end().await.map(|_| ())
}

pub(super) async fn byte_by_byte(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let id = text("slow");
    let line = Session::request(&id, CAPABILITIES, None)?;
    session.expect(id.clone());
    for byte in line {
        session.write(vec![byte]);
        session.written().await?;
    }
    accepted(&session.answer(&id, "a frame that came byte by byte").await?)?;
    session.end().await.map(|_| ())
}

pub(super) async fn pipelined(trial: &Trial<'_>) -> Step<()> {
    const REQUESTS: i64 = 64;
    let mut session = trial.greeted().await?;
    let mut all = Vec::new();
    for number in 0..REQUESTS {
        let id = Id::Int(1000 + number);
        all.extend_from_slice(&Session::request(&id, CAPABILITIES, None)?);
        session.expect(id);
    }
    session.write(all);
    for number in 0..REQUESTS {
        accepted(&session.answer(&Id::Int(1000 + number), "one of many requests").await?)?;
    }
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

/// A plan whose token fills the frame to its last byte.
fn plan(id: &Id, bytes: usize) -> Step<Vec<u8>> {
    let frame = |token: &str| {
        let params = json!({
            "approved_permissions": [], "capability_token": token, "resolved_plan_digest": format!("sha256:{:064}", 0),
        });
        Session::request(id, "driver.prepare", Some(params))
    };
    // The line has its LF on top of the frame.
    let rest = (bytes + 1).saturating_sub(frame("")?.len());
    frame(&"t".repeat(rest))
}

pub(super) async fn largest(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let id = text("large");
    let line = plan(&id, MAX_CONTROL_FRAME_BYTES)?;
    session.expect(id.clone());
    session.write(line);
    session.written().await?;
    match session.answer(&id, "a frame of 1 MiB").await? {
        // A driver that needs what was not approved may refuse this plan, but not its frame.
        Answer::Error(error) if error.data.class == ErrorClass::PermissionDenied => {}
        answer => accepted(&answer)?,
    }
    session.end().await.map(|_| ())
}

pub(super) async fn too_large(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let id = text("larger");
    let line = plan(&id, MAX_CONTROL_FRAME_BYTES + 1)?;
    not_carried_out(&mut session, line, &[id]).await?;
    session.end().await.map(|_| ())
}

/// Writes a line that must not be carried out, under ids that may be refused but not answered with a result.
async fn not_carried_out(session: &mut Session<'_>, line: impl Into<Vec<u8>>, ids: &[Id]) -> Step<()> {
    for id in ids {
        session.expect(id.clone());
    }
    session.write(line.into());
    session.written().await.map_err(|stop| match stop {
        Stop::Breaks { detail, .. } => Stop::Unmet(detail),
        stop => stop,
    })?;
    session.still_usable().await?;
    for id in ids {
        if let Some(Answer::Result(_)) = session.answered(id) {
            return Err(Stop::unmet("it was carried out"));
        }
    }
    Ok(())
}

async fn bad_line(trial: &Trial<'_>, lines: &[&[u8]]) -> Step<()> {
    let mut session = trial.greeted().await?;
    for line in lines {
        not_carried_out(&mut session, line.to_vec(), &[]).await?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn no_json(trial: &Trial<'_>) -> Step<()> {
    let lines: [&[u8]; 5] = [b"hello\n", b"{\"jsonrpc\":\"2.0\",\n", b"{} {}\n", b"\"\\ud800\"\n", b"42\n"];
    bad_line(trial, &lines).await
}

pub(super) async fn blank(trial: &Trial<'_>) -> Step<()> {
    bad_line(trial, &[b"\n", b"\r\n", b"  \n", b"\n\n\n"]).await
}

pub(super) async fn no_utf8(trial: &Trial<'_>) -> Step<()> {
    bad_line(trial, &[b"\xff\xfe\n", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\",\"method\":\"driver.capabilities\"}\n"])
        .await
}

pub(super) async fn deep(trial: &Trial<'_>) -> Step<()> {
    let mut line = vec![b'['; 100_000];
    line.push(b'\n');
    bad_line(trial, &[&line]).await
}

pub(super) async fn batch(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let line = b"[{\"jsonrpc\":\"2.0\",\"id\":\"batch\",\"method\":\"driver.capabilities\"}]\n";
    not_carried_out(&mut session, line, &[text("batch")]).await?;
    session.end().await.map(|_| ())
}

pub(super) async fn twice_named(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let lines: [&str; 2] = [
        r#"{"jsonrpc":"2.0","id":"first","id":"second","method":"driver.capabilities"}"#,
        r#"{"jsonrpc":"2.0","id":"first","\u0069d":"second","method":"driver.capabilities"}"#,
    ];
    for line in lines {
        not_carried_out(&mut session, format!("{line}\n"), &[text("first"), text("second")]).await?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn other_version(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let lines = [
        r#"{"jsonrpc":"1.0","id":"old","method":"driver.capabilities"}"#,
        r#"{"id":"old","method":"driver.capabilities"}"#,
    ];
    for line in lines {
        not_carried_out(&mut session, format!("{line}\n"), &[text("old")]).await?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn wrong_ids(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    for id in ["1.5", "null", "true", "[1]", "{}"] {
        // An answer under a rounded or another id is unknown to Core, which says so.
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"driver.capabilities\"}}\n");
        not_carried_out(&mut session, line, &[]).await?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn unknown_method(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    for method in ["driver.fly", "hello", "DRIVER.CAPABILITIES", "driver.observation"] {
        let answer = session.ask(method, Some(json!({}))).await?;
        refused(&answer, &format!("the method `{method}`"), &[ErrorClass::InvalidRequest])?;
    }
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn unknown_members(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let answer = session.ask(CAPABILITIES, Some(json!({"verbose": true}))).await?;
    refused(&answer, "an unknown member of params", &[ErrorClass::InvalidRequest])?;
    let id = text("member");
    session.expect(id.clone());
    session.write(&b"{\"jsonrpc\":\"2.0\",\"id\":\"member\",\"method\":\"driver.capabilities\",\"trace\":1}\n"[..]);
    let answer = session.answer(&id, "a request with an unknown member").await?;
    refused(&answer, "an unknown member of the envelope", &[ErrorClass::InvalidRequest])?;
    session.end().await.map(|_| ())
}

pub(super) async fn null_params(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let answer = session.ask(CAPABILITIES, Some(json!(null))).await?;
    refused(&answer, "params of null", &[ErrorClass::InvalidRequest])?;
    session.end().await.map(|_| ())
}

pub(super) async fn without_id(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    // Carried out, a shutdown would end the driver; answered, it would have no request that it belongs to.
    for method in ["driver.capabilities", "driver.shutdown"] {
        not_carried_out(&mut session, format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n"), &[]).await?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn without_ending(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let id = text("last");
    let mut line = Session::request(&id, CAPABILITIES, None)?;
    line.truncate(line.len() - 1);
    session.expect(id.clone());
    session.write(line);
    session.written().await?;
    session.close_input();
    match session.answer(&id, "the last frame").await {
        Ok(answer) => accepted(&answer)?,
        Err(Stop::Breaks { id: crate::kit::catalog::id::STAYS | crate::kit::catalog::id::ANSWERS, .. }) => {
            return Err(Stop::unmet("it was not answered"));
        }
        Err(stop) => return Err(stop),
    }
    session.end().await.map(|_| ())
}

fn accepted(answer: &Answer) -> Step<()> {
    match answer {
        Answer::Result(_) => Ok(()),
        Answer::Error(error) => Err(Stop::unmet(format!("it was refused ({})", error.data.class))),
    }
}
