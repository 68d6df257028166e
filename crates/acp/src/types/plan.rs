//! Plans: what the agent intends to do.

use super::declare::{object, tagged, words};
use super::ids::PlanId;
use super::leaf::List;
use super::path::AcpPath;

object! {
    /// The whole plan; it replaces the one before.
    pub struct Plan, "a plan", new(entries: List<PlanEntry>) {
        /// The steps.
        req_lax entries: List<PlanEntry> = "entries",
    }
}

object! {
    /// A step of a plan.
    pub struct PlanEntry, "a plan entry", new(content: String, priority: PlanEntryPriority, status: PlanEntryStatus) {
        /// What it is about.
        req content: String = "content",
        /// How much it matters.
        req priority: PlanEntryPriority = "priority",
        /// How far it is.
        req status: PlanEntryStatus = "status",
    }
}

words! {
    /// How much a step matters.
    pub enum PlanEntryPriority, "a plan entry priority" {
        /// Much.
        High = "high",
        /// Some.
        Medium = "medium",
        /// Little.
        Low = "low",
    }
}

words! {
    /// How far a step is.
    pub enum PlanEntryStatus, "a plan entry status" {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
    }
}

object! {
    /// Creates or replaces one of several plans. The client must have advertised `plan`.
    pub struct PlanUpdate, "a plan update", new(plan: PlanUpdateContent) {
        /// The plan.
        req plan: PlanUpdateContent = "plan",
    }
}

tagged! {
    /// The form of a plan.
    pub enum PlanUpdateContent, "a plan of a known form", "type" {
        /// A list of steps.
        Items(PlanItems) = "items",
        /// A text.
        Markdown(PlanMarkdown) = "markdown",
    }
}

impl From<PlanItems> for PlanUpdateContent {
    fn from(items: PlanItems) -> Self {
        Self::Items(items)
    }
}

impl From<PlanMarkdown> for PlanUpdateContent {
    fn from(markdown: PlanMarkdown) -> Self {
        Self::Markdown(markdown)
    }
}

object! {
    /// A plan as a list of steps.
    pub struct PlanItems, "plan items", new(plan_id: PlanId, entries: List<PlanEntry>) {
        /// Which plan.
        req plan_id: PlanId = "planId",
        /// All its steps.
        req_lax entries: List<PlanEntry> = "entries",
    }
}

object! {
    /// A plan as a text.
    pub struct PlanMarkdown, "a plan text", new(plan_id: PlanId, content: String) {
        /// Which plan.
        req plan_id: PlanId = "planId",
        /// The text, Markdown.
        req content: String = "content",
        /// The file that holds it.
        opt path: AcpPath = "path",
    }
}

object! {
    /// Takes a plan away. The client must have advertised `plan`.
    pub struct PlanRemoved, "a plan removal", new(plan_id: PlanId) {
        /// Which plan.
        req plan_id: PlanId = "planId",
    }
}
