//! What keeper and page tell each other, each a value on a channel. The page is a process of its
//! own: it sees what viewers ask, and has no privilege and no traffic.

use serde::{Deserialize, Serialize};

use super::tame::TEXT_MAX;
use weir_control::web::Api;
use weir_host::printable::fit;

/// What the keeper tells the page.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToPage {
    /// The first message; its descriptor is the listener of the address.
    Begin(Box<PagePlan>),
    /// A connection to the control socket of the link, as a descriptor, or why there is none.
    Connection(Result<(), String>),
}

/// What a page shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagePlan {
    /// The name of the deployment.
    pub name: String,
    /// The user as which it runs, where the keeper may choose one; without a name one that no other
    /// program has.
    pub user: Option<String>,
    /// Its address, and who may see it.
    pub api: Api,
}

/// What the page tells the keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromPage {
    /// Viewers are served.
    Ready,
    /// It ends, for this reason.
    Failed(String),
    /// It wants a connection to the control socket, which it cannot open itself.
    Connect,
}

impl FromPage {
    /// Makes it fit for a keeper, which prints what it is told: a page may have been taken over.
    pub fn tame(mut self) -> Self {
        if let Self::Failed(why) = &mut self {
            let cut = why.char_indices().nth(TEXT_MAX).map(|(end, _)| end);
            why.truncate(cut.unwrap_or(why.len()));
            fit(why);
        }
        self
    }
}
