//! `$/cancel_request`: gives up a request that is under way, in either direction.

use super::declare::object;
use super::ids::RequestId;

object! {
    /// The sender gives up one of its requests. The receiver still answers it, with a result or with -32800;
    /// an id that is not known or is answered already is ignored.
    pub struct CancelRequestNotification, "a $/cancel_request notification", new(request_id: RequestId) {
        /// The request.
        req request_id: RequestId = "requestId",
    }
}
