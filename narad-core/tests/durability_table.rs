//! Every test that docs/durability.md names exists, under the name by which `cargo test` finds it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "it reads sources")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of the functions in `source` that are tests.
fn tests_in(source: &str) -> impl Iterator<Item = String> + '_ {
    let mut is_test = false;
    source.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
        let name = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?;
        let name = name.split(['(', '<']).next()?;
        std::mem::take(&mut is_test).then(|| name.to_owned())
    })
}

/// The names of all tests of the repository.
fn tests() -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), Vec::new());
    for package in ["narad-core", "narad-codecs", "narad-retention", "narad-server", "fuzz"] {
        open.extend(["src", "tests"].map(|part| repository().join(package).join(part)));
    }
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(tests_in(&fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_durability_table_names_exists() {
    let table = fs::read_to_string(repository().join("docs/durability.md")).unwrap();
    let tests = tests();
    assert!(tests.len() > 300, "{} tests found", tests.len());
    let (mut rows, mut unknown) = (0, Vec::new());
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<_> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "what happens, survives, is answered, shows it: {row}");
        if cells[3] == "shown by" {
            continue;
        }
        rows += 1;
        assert!(quoted(cells[3]).next().is_some(), "no test shows it: {row}");
        for name in quoted(cells[3]) {
            // A directory, or a part of a test's name.
            let exists = if name.contains('/') {
                repository().join(name).exists()
            } else {
                tests.iter().any(|test| test.contains(name))
            };
            if !exists {
                unknown.push(name.to_owned());
            }
        }
    }
    assert!(rows > 40, "{rows} rows found");
    assert!(unknown.is_empty(), "docs/durability.md names what is no test: {unknown:?}");
}
