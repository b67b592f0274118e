//! Many runs as a page: the table of a sweep or a comparison, and each run as a page of its own.
//!
//! The table is at `/`, and run N at `/run/N/`: what is asked behind that is asked of a page of the
//! run. A run is made when it is first asked for. Invariant: one run is made at a time, and at most
//! [`OPEN_MAX`] are in memory.

use crate::assets;
use crate::http::guard::Site;
use crate::http::{Asking, Fault};
use crate::json::{About, Heat, HeatQuery, History, HistoryQuery, Table};
use crate::page::Page;
use crate::source::{Source, absent};
use axum::extract::Request;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Mutex;
use tower_service::Service;
use weir_control::protocol::Right;
use weir_host::wait::realtime_ns;

/// The runs of a sweep or of a comparison. Each call comes on a thread that may take long.
pub trait Runs: Send + Sync {
    /// Returns their table.
    fn table(&self) -> Table;

    /// Makes a run of the table again, such that it can be looked into.
    ///
    /// # Errors
    /// When it cannot be made; the text says why.
    fn open(&self, run: usize) -> Result<Arc<dyn Source>, String>;
}

/// Returns what meets requests for the page of runs, of those whom the site admits.
pub fn router(runs: Arc<dyn Runs>, site: Site) -> Router {
    let shown = Listed { name: runs.table().name.clone(), table: runs.table() };
    let table = Page::new(Arc::new(shown), None, site.clone()).router();
    let opened = Arc::new(Opened { runs, site, table: table.clone(), pages: Mutex::default() });
    let meet = move |Extension(asking): Extension<Asking>, request: Request| {
        let opened = Arc::clone(&opened);
        async move { opened.meet(asking, request).await.unwrap_or_else(Fault::into_response) }
    };
    table.route("/run/{*place}", any(meet))
}

/// The table as what a page shows.
struct Listed {
    name: String,
    table: Table,
}

impl Source for Listed {
    fn about(&self, _right: Right) -> Result<About, Fault> {
        Ok(About {
            kind: "runs".to_owned(),
            name: self.name.clone(),
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            now: realtime_ns() as f64 / 1e6,
            ..About::default()
        })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        let _of_a_run = query;
        Err(absent("classes over time"))
    }

    fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault> {
        let _of_a_run = query;
        Err(absent("delays"))
    }

    fn runs(&self) -> Result<Table, Fault> {
        Ok(self.table.clone())
    }
}

/// The pages of runs.
struct Opened {
    runs: Arc<dyn Runs>,
    site: Site,
    table: Router,
    /// Those that were made last, each with its number.
    pages: Mutex<VecDeque<(usize, Router)>>,
}

impl Opened {
    async fn meet(&self, mut asking: Asking, mut request: Request) -> Result<Response, Fault> {
        let (run, path) = place(&asking.head().path)?;
        let mut router = if assets::is_path(&path) {
            self.table.clone()
        } else {
            // Before anything is made for a stranger.
            self.site.admit(asking.head())?;
            self.page(run).await?
        };
        let query = asking.head().query.as_str();
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        *request.uri_mut() =
            target.parse::<Uri>().map_err(|error| Fault::bad(error.to_string()))?;
        asking.asked.head.path = path;
        request.extensions_mut().insert(asking);
        let Ok(response) = router.call(request).await;
        Ok(response)
    }

    /// Returns the page of a run, and makes the run if it is not here.
    async fn page(&self, run: usize) -> Result<Router, Fault> {
        let mut pages = self.pages.lock().await;
        if let Some((_, router)) = pages.iter().find(|row| row.0 == run) {
            return Ok(router.clone());
        }
        // Two of them need not be in memory at once while one is made.
        pages.truncate(OPEN_MAX - 1);
        let runs = Arc::clone(&self.runs);
        let made = tokio::task::spawn_blocking(move || runs.open(run)).await;
        let made = made.unwrap_or_else(|_panic| Err("this run failed, a fault of Weir".to_owned()));
        let source = made.map_err(|why| Fault::new(409, why))?;
        let router = Page::new(source, None, self.site.clone()).router();
        pages.push_front((run, router.clone()));
        Ok(router)
    }
}

/// Returns the run that a path is of, and the path within its page.
fn place(path: &str) -> Result<(usize, String), Fault> {
    let missing = || Fault::new(404, "there is no such run; the page at `/` lists them");
    let rest = path.strip_prefix("/run/").ok_or_else(missing)?;
    let (run, within) = rest.split_once('/').ok_or_else(missing)?;
    Ok((run.parse().map_err(|_| missing())?, format!("/{within}")))
}

/// Bound: runs of a sweep or comparison whose pages are in memory; the one made first goes.
pub const OPEN_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::memory;
    use crate::json::{Direction, Point};

    struct Two;

    struct One(usize);

    impl Runs for Two {
        fn table(&self) -> Table {
            let point = |run| Point { runs: vec![run], ..Point::default() };
            Table { name: "two".to_owned(), points: vec![point(0), point(1)], ..Table::default() }
        }

        fn open(&self, run: usize) -> Result<Arc<dyn Source>, String> {
            match run {
                0 | 1 => Ok(Arc::new(One(run))),
                _ => Err("there are two runs".to_owned()),
            }
        }
    }

    impl Source for One {
        fn about(&self, _right: Right) -> Result<About, Fault> {
            let name = format!("run {}", self.0);
            let directions = vec![Direction::default()];
            Ok(About { kind: "record".to_owned(), name, directions, ..About::default() })
        }

        fn history(&self, _query: &HistoryQuery) -> Result<History, Fault> {
            Err(absent("classes"))
        }

        fn heat(&self, _query: &HeatQuery) -> Result<Heat, Fault> {
            Err(absent("delays"))
        }
    }

    fn ask(path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let router = router(Arc::new(Two), Site::Local);
        String::from_utf8_lossy(&memory::answer(request.as_bytes(), &router).answer).into_owned()
    }

    #[test]
    fn the_table_is_in_front_and_each_run_is_a_page() {
        for (path, status, part) in [
            ("/", "200", "<!doctype html>"),
            ("/view/about", "200", "\"kind\":\"runs\""),
            ("/view/runs", "200", "\"name\":\"two\""),
            ("/run/1/", "200", "<!doctype html>"),
            ("/run/1/view/about", "200", "\"name\":\"run 1\""),
            ("/run/1/view/history?direction=x", "404", "classes"),
            ("/run/1/view/runs", "404", "one run"),
            ("/run/7/view/about", "409", "there are two runs"),
            ("/run/x/view/about", "404", "no such run"),
            ("/run/1", "404", "no such run"),
        ] {
            let answer = ask(path);
            let head = format!("HTTP/1.1 {status}");
            assert!(answer.starts_with(&head) && answer.contains(part), "{path}: {answer}");
        }
    }

    #[test]
    fn the_run_that_was_made_first_goes() {
        let mut pages: VecDeque<usize> = VecDeque::new();
        for run in 0..10 {
            pages.truncate(OPEN_MAX - 1);
            pages.push_front(run);
        }
        assert_eq!(pages, [9, 8, 7, 6]);
    }
}
