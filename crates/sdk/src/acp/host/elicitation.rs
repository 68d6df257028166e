//! How a client answers `elicitation/create`.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use pintle_acp::types::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationId, ElicitationMode,
};

use crate::acp::service::BoxFuture;

/// Pages that are remembered until the agent says that the user is done with them.
const MAX_OPEN_PAGES: usize = 64;

type Ask = dyn Fn(CreateElicitationRequest) -> BoxFuture<'static, ElicitationAction> + Send + Sync;

/// Who answers when the agent wants something from the user.
#[derive(Clone, Default)]
pub enum Elicit {
    /// Nobody: the user says no.
    #[default]
    Decline,
    /// Nobody: the user closes it.
    Cancel,
    /// A person, or whatever else the function asks.
    Ask(AskUser),
}

/// See [`Elicit::ask`].
#[derive(Clone)]
pub struct AskUser(Arc<Ask>);

impl Elicit {
    /// Asks `user`. When the agent gives the request up meanwhile, the future is dropped.
    pub fn ask<F, U>(user: U) -> Self
    where
        U: Fn(CreateElicitationRequest) -> F + Send + Sync + 'static,
        F: Future<Output = ElicitationAction> + Send + 'static,
    {
        Self::Ask(AskUser(Arc::new(move |request| Box::pin(user(request)))))
    }

    pub(super) async fn answer(&self, request: CreateElicitationRequest) -> CreateElicitationResponse {
        CreateElicitationResponse::new(match self {
            Self::Decline => ElicitationAction::decline(),
            Self::Cancel => ElicitationAction::cancel(),
            Self::Ask(AskUser(ask)) => ask(request).await,
        })
    }
}

impl fmt::Debug for Elicit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decline => "Decline",
            Self::Cancel => "Cancel",
            Self::Ask(_) => "Ask(..)",
        })
    }
}

impl fmt::Debug for AskUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskUser(..)")
    }
}

/// The pages that the user agreed to open.
#[derive(Debug, Default)]
pub(super) struct OpenPages(Mutex<VecDeque<ElicitationId>>);

impl OpenPages {
    /// Which page a request is about, if it is about one.
    pub(super) fn of(request: &CreateElicitationRequest) -> Option<ElicitationId> {
        match &request.mode {
            ElicitationMode::Url(page) => Some(page.elicitation_id.clone()),
            _ => None,
        }
    }

    pub(super) fn opened(&self, page: ElicitationId) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() == MAX_OPEN_PAGES {
            pages.pop_front();
        }
        pages.push_back(page);
    }

    /// Whether the page was open, which it is not any more.
    pub(super) fn completed(&self, page: &ElicitationId) -> bool {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pages.len();
        pages.retain(|open| open != page);
        pages.len() < before
    }
}
