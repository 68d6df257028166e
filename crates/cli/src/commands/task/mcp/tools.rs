//! The tools. Their arguments become a publish request and pass the same strict reader as one on standard input.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use pintle_pointer::{Agent, Code, Observed, PublishRequest, REQUEST_MAX_BYTES, SessionId, success_receipt};
use pintle_store::RealFs;
use pintle_store::pointer::PointerStore;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject,
    ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::commands::task::publish::{Refused, publish_request};
use crate::commands::task::roots::{Where, root_with};

const GET: &str = "task_get";
const PUBLISH: &str = "task_publish";
const CLEAR: &str = "task_clear";

/// Claude Code hides the tools of MCP servers behind a search otherwise, and a model that was just told to publish would
/// have to look for them first (measured on 2.1.332).
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";

const INSTRUCTIONS: &str = "The task of the session: goal and next step, kept through compaction and resume. A block that \
                            begins with TASK_POINTER_V2 names the session, the generation and the revision to pass.";

/// The server: stateless but for where the sessions are.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    place: Where,
}

impl Tools {
    pub(super) fn new(root: Option<PathBuf>, agent: Option<Agent>) -> Self {
        Self { place: Where { root, agent } }
    }

    fn call(&self, name: &str, arguments: JsonObject) -> Result<String, Refused> {
        crate::commands::task::panic_if_asked("mcp");
        match name {
            GET => self.get(&arguments),
            CLEAR => self.publish(clear_request(arguments)?),
            _ => self.publish(publish_arguments(arguments)),
        }
    }

    fn publish(&self, arguments: JsonObject) -> Result<String, Refused> {
        let bytes = Value::Object(arguments).to_string();
        let request = PublishRequest::decode(bytes.as_bytes()).map_err(|error| Refused::new(error.code(), error))?;
        // The session variable of this process is that of the session which started it. The host keeps the process
        // through a clear or a resume, so the variable says nothing about the caller.
        publish_request(self.place.root.clone(), self.place.agent, &request).map(|state| success_receipt(&state))
    }

    fn get(&self, arguments: &JsonObject) -> Result<String, Refused> {
        let session = session_of(arguments)?;
        let root = root_with(&self.place, &session).map_err(|error| Refused::new(Code::StateIo, error.message()))?;
        let observed = PointerStore::new(&RealFs, root).observe(&session)?;
        stored(&session, &observed)
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("pintle-task", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if ![GET, PUBLISH, CLEAR].contains(&&*request.name) {
            return Err(ErrorData::invalid_params("no such tool; there are task_get, task_publish, task_clear", None));
        }
        let tools = self.clone();
        // A lock may have to be waited for, and a disk too; pings are answered meanwhile.
        let done =
            tokio::task::spawn_blocking(move || tools.call(&request.name, request.arguments.unwrap_or_default()));
        let result = match done.await {
            Ok(Ok(receipt)) => CallToolResult::success(vec![ContentBlock::text(receipt)]),
            Ok(Err(refused)) => CallToolResult::error(vec![ContentBlock::text(refused.receipt())]),
            Err(_) => return Err(ErrorData::internal_error("the call ended by a fault of this server", None)),
        };
        Ok(result.into())
    }
}

/// Members that a model leaves out where there is only one thing to say are filled in; every other one is checked by the
/// strict reader.
fn publish_arguments(mut arguments: JsonObject) -> JsonObject {
    for (name, value) in [("schema_version", json!(3)), ("task_id", Value::Null), ("pointer_text", Value::Null)] {
        arguments.entry(name).or_insert(value);
    }
    arguments
}

fn clear_request(mut arguments: JsonObject) -> Result<JsonObject, Refused> {
    if ["target_status", "task_id", "pointer_text"].iter().any(|name| arguments.contains_key(*name)) {
        return Err(Refused::new(
            Code::RequestSchema,
            "task_clear takes session_id, expected_generation and expected_revision",
        ));
    }
    arguments.insert("target_status".to_owned(), json!("CLEARED"));
    Ok(publish_arguments(arguments))
}

fn session_of(arguments: &JsonObject) -> Result<SessionId, Refused> {
    if arguments.keys().any(|name| name != "session_id") {
        return Err(Refused::new(Code::RequestSchema, "task_get takes session_id and nothing else"));
    }
    let id = arguments.get("session_id").and_then(Value::as_str).unwrap_or_default();
    id.parse().map_err(|error| Refused::new(Code::SessionIdInvalid, error))
}

/// What is stored, with the pair that the next publish must expect.
fn stored(session: &SessionId, observed: &Observed) -> Result<String, Refused> {
    if let Observed::Corrupt(fault) = observed {
        return Err(Refused::new(fault.code, fault));
    }
    let Some(expectation) = observed.expectation() else {
        return Err(Refused::new(Code::StateCorrupt, "nothing readable is stored"));
    };
    let task = observed.task();
    let updated_at = match observed {
        Observed::Current(state) => Some(state.updated_at.to_string()),
        Observed::Legacy(state) => Some(state.updated_at.to_string()),
        Observed::Absent | Observed::Corrupt(_) => None,
    };
    Ok(json!({
        "ok": true,
        "session_id": session.as_str(),
        "generation": expectation.generation.as_str(),
        "revision": expectation.revision,
        "status": observed.status_word(),
        "task_id": task.map(|task| task.id.as_str()),
        "pointer_text": task.map(|task| task.text.as_str()),
        "updated_at": updated_at,
    })
    .to_string())
}

fn tools() -> Vec<Tool> {
    let session = json!({"type": "string", "maxLength": 128, "description": "`session:` of the newest block"});
    // Declared although it need not be said: the published request has it, and some hosts refuse what is not declared.
    let version = json!({"type": "integer", "description": "3; may be left out"});
    let pair = [
        ("schema_version", version),
        ("session_id", session.clone()),
        (
            "expected_generation",
            json!({"type": "string", "description": "`generation:` of the newest block or receipt (g-.., ABSENT or \
                                                     LEGACY_V2)"}),
        ),
        (
            "expected_revision",
            json!({"type": "integer", "minimum": 0, "description": "`revision:` of the newest block or receipt"}),
        ),
    ];
    // Members of type "string or null" are left optional instead: some providers refuse a list of types.
    let task = [
        (
            "target_status",
            json!({"type": "string", "enum": ["CLEAN", "DIRTY", "CLEARED"],
                   "description": "CLEAN: recorded as it stands. DIRTY: a checkpoint, newest prompt not merged yet. \
                                   CLEARED: done."}),
        ),
        (
            "task_id",
            json!({"type": "string", "maxLength": 36,
                   "description": "A lower-case UUIDv4, the same for one task. Left out with CLEARED."}),
        ),
        (
            "pointer_text",
            json!({"type": "string", "maxLength": REQUEST_MAX_BYTES,
                   "description": "Goal and next step in a few lines, at most 8192 bytes. Left out with CLEARED."}),
        ),
    ];
    let required = ["session_id", "expected_generation", "expected_revision"];
    let publish_required = [&required[..], &["target_status"]].concat();
    vec![
        tool(
            GET,
            "Read the recorded task of a session, with the generation and revision that the next publish must name.",
            [("session_id", session)],
            &["session_id"],
            ToolAnnotations::new().read_only(true).open_world(false),
        ),
        tool(
            PUBLISH,
            "Record what the session works on and what comes next. Refused with STALE_GENERATION or STALE_REVISION when \
             something newer is stored: read it with task_get, merge, publish again.",
            pair.clone().into_iter().chain(task),
            &publish_required,
            ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false),
        ),
        tool(
            CLEAR,
            "Forget the task of a session, when it is done or no longer wanted.",
            pair,
            &required,
            ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(false),
        ),
    ]
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: impl IntoIterator<Item = (&'static str, Value)>,
    required: &[&str],
    annotations: ToolAnnotations,
) -> Tool {
    let properties: JsonObject = properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(required));
    schema.insert("additionalProperties".to_owned(), json!(false));
    let mut meta = MetaObject::new();
    meta.0.insert(ALWAYS_LOAD.to_owned(), json!(true));
    Tool::new(name, Cow::Borrowed(description), Arc::new(schema)).with_annotations(annotations).with_meta(meta)
}
