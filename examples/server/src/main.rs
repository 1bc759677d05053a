//! A small web server on axum and tokio: orders, which are JSON in and out, and a map of sessions that all threads share.
//!
//! It names no global allocator. So it has the one that is preloaded, and `commensal lab servers` can compare them.
//!
//! ```text
//! cargo install --path examples/server
//! commensal lab servers rust
//! ```

use std::collections::HashMap;
use std::path::Path as File;
use std::sync::{Arc, RwLock};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;

/// By name: what a client has stored.
type Sessions = Arc<RwLock<HashMap<String, String>>>;

#[derive(Deserialize)]
struct Order {
    id: u64,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    count: u64,
    price: u64,
}

#[derive(Serialize)]
struct Bill {
    id: u64,
    total: u64,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    sum: u64,
}

async fn bill(Json(order): Json<Order>) -> Json<Bill> {
    let line = |item: Item| Line { sum: item.count * item.price, name: item.name };
    let lines: Vec<Line> = order.items.into_iter().map(line).collect();
    Json(Bill { id: order.id, total: lines.iter().map(|line| line.sum).sum(), lines })
}

async fn session(Path(name): Path<String>, State(sessions): State<Sessions>) -> Result<String, StatusCode> {
    sessions.read().expect("no thread panics").get(&name).cloned().ok_or(StatusCode::NOT_FOUND)
}

async fn store(Path(name): Path<String>, State(sessions): State<Sessions>, text: String) -> &'static str {
    sessions.write().expect("no thread panics").insert(name, text);
    "stored"
}

async fn remove(Path(name): Path<String>, State(sessions): State<Sessions>) -> Result<&'static str, StatusCode> {
    let removed = sessions.write().expect("no thread panics").remove(&name);
    removed.map(|_| "removed").ok_or(StatusCode::NOT_FOUND)
}

fn main() -> std::io::Result<()> {
    let Some(socket) = std::env::args_os().nth(1) else {
        eprintln!("expected the path of the Unix socket to listen on");
        std::process::exit(2);
    };
    tokio::runtime::Builder::new_multi_thread().enable_io().build()?.block_on(async {
        let listener = UnixListener::bind(File::new(&socket))?;
        let app = Router::new()
            .route("/orders", post(bill))
            .route("/sessions/{name}", get(session).put(store).delete(remove))
            .with_state(Sessions::default());
        axum::serve(listener, app).await
    })
}
