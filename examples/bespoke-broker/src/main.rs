//! A broker of one's own: its codec, its retention policy, its wake notifier, and its route beside `/v1`.
//!
//! It is the whole command `narad` with these plugins: `bespoke-broker serve --dev`, `bespoke-broker plugin ls`. Given a
//! directory alone it tries itself out there and ends, as CI has it do.

mod demo;
mod plugins;

use std::{env, path::PathBuf, process::ExitCode, sync::Arc};

use axum::{Router, routing::get};
use narad_core::{
    origin,
    plugin::{NoConfig, RegistryError},
};
use narad_server::{cli, serve::Builder};
use plugins::{Newest, Rot13, Tally};

fn main() -> ExitCode {
    match env::args_os().nth(1).map(PathBuf::from).filter(|argument| argument.is_absolute()) {
        Some(dir) => demo::run(&dir),
        None => cli::main_with(broker),
    }
}

fn broker() -> Result<Builder, RegistryError> {
    let tally = Arc::<Tally>::default();
    let told = Arc::clone(&tally);
    let builder = Builder::new()?.plugins(|registry| {
        registry.codec(origin!(), "rot13", Rot13::NUMBER, |NoConfig {}, _| Ok(Arc::new(Rot13)))?;
        registry.retention(origin!(), "newest", |newest: Newest, _| Ok(Arc::new(newest)))?;
        registry.wake(origin!(), "tally", move |NoConfig {}, _| Ok(Arc::<Tally>::clone(&told)))
    })?;
    Ok(builder.routes(|_broker| Router::new().route("/tally", get(async move || tally.to_string()))))
}
